"""``everstep``: the table of commands, and what every one of them ends with."""

import io
import json
import sys
from errno import ENOSPC
from typing import NoReturn

import typer
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from everstep import __version__
from everstep.cli import dead_letters, local
from everstep.cli.branch import clone, resume
from everstep.cli.capacity import capacity
from everstep.cli.classify import classify
from everstep.cli.destroy import destroy
from everstep.cli.doctor import doctor
from everstep.cli.errors import DISK, NOT_ARRIVED, NOT_FOUND, CliError
from everstep.cli.logs import logs
from everstep.cli.output import say
from everstep.cli.plan import plan
from everstep.cli.refusal import explained
from everstep.cli.report import report
from everstep.cli.retry import retry
from everstep.cli.run import run
from everstep.cli.runs import list_runs, status, stop
from everstep.cli.shell import shell
from everstep.cli.simulate import simulate
from everstep.cli.watch import watch

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="LLM training on AWS that arrives.",
)
app.add_typer(local.app, name="local")
app.command()(plan)
app.command()(run)
app.command("list")(list_runs)
app.command()(status)
app.command()(watch)
app.command()(logs)
app.command()(report)
app.command()(stop)
app.command()(retry)
app.command()(resume)
app.command()(clone)
app.command()(shell)
app.command()(capacity)
app.command()(classify)
app.command()(simulate)
app.command()(doctor)
app.command("redrive-dlq")(dead_letters.redrive_dlq)
app.command()(destroy)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> None:
    """Entry point: every expected failure is a sentence and a hint."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # × is ? where the terminal speaks ASCII alone
    try:
        app()
    except CliError as error:
        _end(error)
    except (ClientError, BotoCoreError) as error:
        _end(explained(error))
    except ResponseParserError as error:
        first = str(error).partition("\n")[0]
        hint = "a proxy's or a login page? An emulator takes AWS's own regions only"
        _end(CliError(f"what answered is not AWS: {first}", hint, NOT_FOUND))
    except OSError as error:
        hint = DISK if error.errno == ENOSPC else "a folder that is not yours, or is not there?"
        _end(CliError(f"this machine said: {error}", hint, NOT_ARRIVED))
    except SystemExit as ended:
        # Typer makes a silent 130 of Ctrl-C; a command that has said its own word has no cause.
        if isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt):
            say("interrupted; a run that was started goes on")
        raise


def _end(error: CliError) -> NoReturn:
    """A sentence for a person; for a program that asked for JSON, that too."""
    say(error.shown)
    if "--json" in sys.argv:
        print(json.dumps(error.as_dict()))
    sys.exit(error.code)


if __name__ == "__main__":
    main()
