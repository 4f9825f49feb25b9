"""The one language in which people say which devices, which limits and which conditions they mean.

Its syntax is that of CEL (cel.dev), of which it has what can be answered for any device by one SQL condition and on a
board alike: no loops, no errors while it is evaluated. docs/expressions.md is for those who write it.
"""
