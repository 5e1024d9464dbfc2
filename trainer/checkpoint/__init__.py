"""Checkpoints: data first, manifest last; verified before anything is read back.

``catalogue`` knows names and manifests (no torch), ``state`` what is saved, ``saver`` writes in
the background, ``restore`` finds, verifies and loads.
"""
