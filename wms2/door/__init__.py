"""The door, for whoever is outside: people at the command line, and the REST service.

Everything that is asked comes in here, so that it is checked in one way whichever hand asks.
"""
