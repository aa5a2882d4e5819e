# SPDX-License-Identifier: Apache-2.0
"""Settings of the sample worlds: small boards, short sequences."""


def settings_of(name, max_steps=20, **more):
    if name == "coins":
        return {"size": 4, "goal": 3, **more}
    if name in ("catch", "walk", "stone", "tic-tac-toe"):
        return more
    if name in ("tug", "race"):
        return {"length": max_steps, **more}
    if name == "cart-pole":
        return {"max_steps": max_steps, **more}
    return {"max_steps": max_steps, "height": 5, "width": 5, **more}


def options_of(name, max_steps=20):
    """Options that make a sample world, or join the only one there is."""
    return {"world": ""} if name == "page" else {"create_settings": settings_of(name, max_steps)}
