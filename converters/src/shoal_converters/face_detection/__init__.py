"""The face detection example: a trained network that finds faces, as a release folder, with photographs."""
