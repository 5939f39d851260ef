"""Scripts that DAGMan runs on the submit host around each job: standard library only, Python 3.9 or newer."""
