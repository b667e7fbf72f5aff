"""What holds for every input and every order of events, checked against simple models."""
