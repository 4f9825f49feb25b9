"""The fleet's own certificate authority: who is a board of this fleet, and who is its broker?"""
