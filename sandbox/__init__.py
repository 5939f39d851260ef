"""What runs on the worker node: standard library only, Python 3.9 or newer."""
