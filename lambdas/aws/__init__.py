"""AWS as the handlers see it: one small class a service, given its client and the clock."""
