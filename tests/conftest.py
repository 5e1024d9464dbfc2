"""What holds for every room's tests."""

from hypothesis import settings

# how long an example takes is the machine's matter: it is shared, and a slow second is no defect
settings.register_profile("everstep", deadline=None)
settings.load_profile("everstep")
