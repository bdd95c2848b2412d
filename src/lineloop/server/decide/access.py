"""Who may do what with which credential (spec/protocol.md §8.1). Pure.

Decides which actors a credential may act as and which verbs it has. Leaves to `http` how a credential
arrives, to `commit` where it is stored. An actor's name proves nothing; only the credential does.
"""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase

from lineloop.kit.records import record
from lineloop.protocol.actors import RUNTIME, USER, Actor
from lineloop.protocol.errors import Forbidden, InvalidRequest, Unauthorized

LOCAL_USER = "local"
LOCAL_PERSON = Actor(USER, LOCAL_USER)
WILDCARD = "*"


class Verb(StrEnum):
    """What a token may be allowed to do."""

    CREATE = "create"
    READ = "read"
    POLL = "poll"
    COMMIT = "commit"
    SPEAK = "speak"
    ASK = "ask"
    ANSWER = "answer"
    PROMPT = "prompt"
    REGISTER = "register"
    ADMIN = "admin"


ORDINARY_VERBS = frozenset(Verb) - {Verb.ADMIN}


@record
class Grant:
    """What a presented credential allows. `pattern` is an actor, or has `*` in its kind or key.

    `owner_user` is the person on whose behalf the credential exists. `is_admin` has every right.
    `is_session`: a person came with a cookie, or was named by the host's own proxy.
    """

    pattern: Actor
    verbs: frozenset[Verb] = ORDINARY_VERBS
    owner_user: str = LOCAL_USER
    is_admin: bool = False
    token_id: str | None = None
    is_session: bool = False

    def require(self, verb: Verb) -> None:
        """Raises Forbidden when the credential does not have `verb`."""
        if verb not in self.verbs and not self.is_admin:
            raise Forbidden(f"this token does not have the verb {verb}", detail={"verb": str(verb)})

    def allows(self, actor: Actor) -> bool:
        """Whether the credential may act as `actor`: by pattern, or as a role of the operator it names."""
        if self.is_admin or self.pattern == actor:
            return True
        if matches(self.pattern, actor):
            return True
        role_of = self.pattern.operator_key if self.pattern.kind == "operator" else None
        return role_of is not None and role_of != WILDCARD and actor.operator_key == role_of

    def actor(self, named: Actor | None = None) -> Actor:
        """The actor to act as: the one named in the request, else the credential's own.

        Raises Forbidden when the credential may not act as `named`, InvalidRequest when it names nobody by
        itself, or a pattern is named.
        """
        if named is not None:
            if is_pattern(named):
                raise InvalidRequest("who acts is one actor and no pattern", pointer="/actor")
            if not self.allows(named):
                raise Forbidden(f"this credential may not act as {named}", detail={"actor": str(named)})
            return named
        if self.is_admin:
            return LOCAL_PERSON
        if is_pattern(self.pattern):
            raise InvalidRequest("this token fits several actors; name one", pointer="/actor")
        return self.pattern

    @property
    def credential(self) -> str:
        """A name of what was presented, without its secret; empty for the administrator and for parts that
        live in the server's process.
        """
        if self.token_id is not None:
            return self.token_id
        return credential_of_person(self.pattern.key) if self.is_session else ""

    @property
    def person(self) -> Actor | None:
        """The person this credential is, if it is one: only a person answers questions."""
        if self.is_admin:
            return LOCAL_PERSON
        return self.pattern if self.pattern.kind == USER and not is_pattern(self.pattern) else None

    @property
    def device_key(self) -> str | None:
        """The key of the device that this credential is, if it is one."""
        exact = self.pattern.kind == RUNTIME and not is_pattern(self.pattern)
        return self.pattern.key if exact else None

    @property
    def is_person(self) -> bool:
        """Whether a person, or any one of several, comes with this credential."""
        return self.is_admin or self.pattern.kind == USER

    def sees_as(self, participant: Actor) -> bool:
        """Whether the credential sees what `participant` takes part in: as that actor, or as the same
        operator in another role.
        """
        if self.allows(participant):
            return True
        own = self.pattern.operator_key
        return own is not None and WILDCARD not in own and participant.operator_key == own


def admin_grant() -> Grant:
    return Grant(Actor(WILDCARD, WILDCARD), frozenset(Verb), LOCAL_USER, is_admin=True)


def person_grant(key: str) -> Grant:
    return Grant(Actor(USER, key), ORDINARY_VERBS, key, is_session=True)


def credential_of_person(key: str) -> str:
    return f"session of {key}"


def is_pattern(actor: Actor) -> bool:
    return WILDCARD in actor.kind or WILDCARD in actor.key


def matches(pattern: Actor, actor: Actor) -> bool:
    """Whether `actor` fits `pattern`; `*` stands for any characters within kind or key."""
    if not is_pattern(pattern):
        return pattern == actor
    return fnmatchcase(actor.kind, _literal(pattern.kind)) and fnmatchcase(actor.key, _literal(pattern.key))


def _literal(pattern: str) -> str:
    """Only `*` is special here; brackets and question marks stand for themselves."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def decide_token(creator: Grant, verbs: list[str] | None) -> frozenset[Verb]:
    """The verbs of a new token. Raises Forbidden unless `creator` is an admin, InvalidRequest."""
    if not creator.is_admin:
        raise Forbidden("only an admin token makes tokens")
    if verbs is None:
        return ORDINARY_VERBS
    known = {str(verb) for verb in ORDINARY_VERBS}
    unknown = [verb for verb in verbs if verb not in known]
    if unknown:
        raise InvalidRequest(f"there is no verb {unknown[0]!r}", pointer="/verbs")
    return frozenset(Verb(verb) for verb in verbs)


def require_grant(grant: Grant | None) -> Grant:
    """Raises Unauthorized when there is none."""
    if grant is None:
        raise Unauthorized("no valid credential came with the request")
    return grant
