"""The doctor, against services and networks that are broken in one way each."""
