"""The door to the requests, for whoever is outside: people at the command line, and the REST service.

Everything that is asked of a request comes in here, so that it is checked in one way whichever hand asks.
"""
