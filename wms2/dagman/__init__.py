"""The files of a DAG: writing them, and reading what DAGMan and the jobs leave behind.

Files on the submit host belong to DAGMan. Torn and missing ones are normal while it runs, and no reader here
fails over them.
"""
