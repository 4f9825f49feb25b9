"""`shoal`: what an operator and a publisher do from a terminal. It talks to the server through its API only."""
