"""What do a Shoal agent and a Shoal fleet agree on?

Rules only: no module here opens a file or a socket or reads a clock. Outside bytes are verified, then parsed once,
into frozen structs; everything after that may rely on their types.
"""
