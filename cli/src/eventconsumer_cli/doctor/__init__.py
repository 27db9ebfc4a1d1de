"""What `doctor` looks at: the user's rights, the installation, and each consumer from outside and from inside."""
