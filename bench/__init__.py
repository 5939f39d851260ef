"""How fast WMS2 is and how much memory it needs: `make bench`, or `python -m bench SUBJECT --json`.

A subject is a module with a list `CASES`; `bench/subjects.py` names them. Each case runs in a process of its
own, so that its memory is its own.
"""
