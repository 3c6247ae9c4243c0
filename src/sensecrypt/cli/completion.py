"""`sensecrypt completion`: shell completion of commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sensecrypt.errors import InvalidInput

SHELLS = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/config.fish"}
_VARIABLE = "_SENSECRYPT_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    In bash: echo 'eval "$(sensecrypt completion bash)"' >> ~/.bashrc
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise InvalidInput("SHELL", f"{shell} is not supported by this version of click", "update click")
    click.echo(kind(context.find_root().command, {}, "sensecrypt", _VARIABLE).source())
