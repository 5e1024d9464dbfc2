"""The CDK app: ``cdk synth -c env=dev``. What is deployed is in stacks/, for whom in config/."""

from stacks.assembly import main

if __name__ == "__main__":
    raise SystemExit(main())
