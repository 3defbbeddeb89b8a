"""What may run now: switches (breakers, rates and slots find their place here)."""
