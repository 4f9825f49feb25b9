"""What runs one model in one engine, in whatever interpreter that engine needs?

The folder is self-contained: Python 3.9 syntax, the standard library, NumPy and the engine, nothing else. It
is started by path (see `__main__.py`), so that neither this package nor its neighbours have to be installed
in the engine's interpreter.
"""
