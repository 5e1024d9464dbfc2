"""``python -m emulator serve|access-report``."""

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path


def end_with(parent: int) -> None:
    """SIGTERM to ourselves once the process that started us is gone, however it went."""
    while os.getppid() == parent:
        time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> int:
    """Entry point of the module."""
    parser = argparse.ArgumentParser(prog="python -m emulator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="run the emulator in the foreground")
    serve.add_argument("--port", type=int, default=0, help="0: any free port")
    serve.add_argument("--state", type=Path, required=True, help="folder for all its files")
    serve.add_argument("--minute", type=float, default=60.0, help="seconds a minute lasts")
    serve.add_argument("--parent", type=int, help="end when this process, the parent, is gone")
    report = commands.add_parser("access-report", help="denied calls and unused grants")
    report.add_argument("--state", type=Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "serve":
        if arguments.parent is not None:
            threading.Thread(target=end_with, args=(arguments.parent,), daemon=True).start()
        # Imported late: the report needs none of moto.
        from emulator.server import serve as run

        return run(arguments.state, arguments.port, arguments.minute)
    from emulator.access_report import access_report

    result = access_report(arguments.state)
    print(json.dumps(result, indent=2))
    return 1 if result["denied"] else 0


if __name__ == "__main__":
    sys.exit(main())
