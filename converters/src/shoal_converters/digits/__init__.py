"""What does an example look like that the workbench makes from a recipe, and whose INT8 variant is a true gain?"""
