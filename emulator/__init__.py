"""AWS on one machine: moto, plus what a training control plane needs and moto lacks.

A test double and a first-run experience. Nothing that runs in the cloud imports it.
"""
