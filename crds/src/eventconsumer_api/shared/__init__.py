"""What all programs share: texts, logs, limits of HTTP, the base of models. It knows no resource."""
