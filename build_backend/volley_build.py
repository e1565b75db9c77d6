"""The build backend: scikit-build-core, and on top of it what depends on the machine.

A build needs the CUDA wheels only where the machine has no nvcc to use, which cannot be said statically in
pyproject.toml.  For a build without isolation, and without pip, ``python build_backend/volley_build.py`` prints what
scikit-build-core requires beside what ``machine.py build`` prints; with a folder and settings
(``dist build-dir=build/wheel``) it builds the wheel there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from scikit_build_core import build as skbuild

import machine

Settings = dict[str, str | list[str]] | None

#: ``-Ccmake.define.NAME=…`` that decide about requirements, and the environment variable each stands for.
_DEFINES = {
    "CMAKE_CUDA_COMPILER": "CUDACXX",
    "VOLLEY_CUDA": "VOLLEY_CUDA",
}


def _export(settings: Settings) -> None:
    """Let machine.py, in this process and under CMake, see what was said with ``-C``."""
    for define, variable in _DEFINES.items():
        value = (settings or {}).get(f"cmake.define.{define}")
        if isinstance(value, str):
            os.environ[variable] = value


def _requirements(static: list[str], settings: Settings) -> list[str]:
    _export(settings)
    try:
        return [*static, *machine.build_requirements()]
    except machine.MachineError as error:
        sys.exit(f"volley: {error}")


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return _requirements(skbuild.get_requires_for_build_wheel(config_settings), config_settings)


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    return _requirements(skbuild.get_requires_for_build_editable(config_settings), config_settings)


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    return skbuild.get_requires_for_build_sdist(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    _export(config_settings)
    return skbuild.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Settings = None) -> str:
    _export(config_settings)
    return skbuild.prepare_metadata_for_build_editable(metadata_directory, config_settings)


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    _export(config_settings)
    return skbuild.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    _export(config_settings)
    return skbuild.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    return skbuild.build_sdist(sdist_directory, config_settings)


if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parent.parent)
    if sys.argv[1:]:
        print(build_wheel(sys.argv[1], dict(setting.split("=", 1) for setting in sys.argv[2:])))
    else:
        print("\n".join(skbuild.get_requires_for_build_wheel()))
