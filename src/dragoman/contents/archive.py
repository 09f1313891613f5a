"""Archive: writes captured exchanges to the contents database, and reads them back (decision 48). It belongs to one
thread; an exchange is written as a whole or not at all."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b

from msgspec import Struct

from dragoman.contents.body_split import ElementList, SplitBody, joined, split
from dragoman.contents.compression import changed, compress, decompress, difference
from dragoman.contents.exchange_contents import BodySide, ExchangeContents, StoredBody
from dragoman.contents.piece import Piece, PieceCache, PieceReader, without_breakpoints
from dragoman.contents.recipe import ListRecipe, Recipe, read_recipe, write_recipe
from dragoman.contents.redaction import ContentsRedactor
from dragoman.contents.sealing import SALT_SIZE, Sealer
from dragoman.database_location import DatabaseLocation
from dragoman.errors import ConfigError
from dragoman.store.contents import NO_NODE, BodyRow, ContentsTables, ExchangeRow
from dragoman.store.contents_database import open_contents
from dragoman.store.errors import StoreError

# Between literals while they are redacted together; JSON has none.
_NUL = b"\0"
_SECRET_SIZE = 32
_CHECK = b"dragoman contents"
# Elements at the end of a list that are looked for one by one: an agent adds a few.
_NEAR = 4
# A recipe may be larger than its body by this much.
_MAX_RECIPE = 1 << 20


class _PreparedList(Struct, frozen=True):
    """A list with its pieces, and the digests of the lists that it begins with."""

    elements: ElementList
    pieces: tuple[Piece, ...]
    nodes: tuple[bytes, ...]


class _PreparedBody(Struct, frozen=True):
    """A body that was redacted and cut, ready to be written."""

    row: BodyRow
    lists: tuple[_PreparedList, ...]


class Archive:
    """The contents of one database."""

    def __init__(self, tables: ContentsTables, sealer: Sealer, secret: bytes, redactor: ContentsRedactor) -> None:
        self.tables = tables
        self._sealer = sealer
        self._secret = secret
        self.redactor = redactor
        self._cache: PieceCache = OrderedDict()

    def write(self, contents: ExchangeContents, secrets: tuple[str, ...] = ()) -> bool:
        """Write an exchange in one transaction; False if it is there already, or an erasure began after it did.
        `secrets` are credentials of its own."""
        redactor = self.redactor.extended(secrets) if secrets else self.redactor
        reader = PieceReader(self._key(contents.key), redactor, self._cache)
        prepared = [self._prepare(contents.id, body, reader) for body in contents.bodies]
        tables = self.tables
        tables.forget_added()
        with tables.transaction():
            row = ExchangeRow(id=contents.id, time=contents.time, key=contents.key, reason=contents.reason)
            if tables.is_erased(row.key, row.time) or not tables.add_exchange(row):
                return False
            for body in prepared:
                for each in body.lists:
                    self._write_list(each)
                    tables.add_list(contents.id, each.nodes[-1])
                tables.add_body(body.row)
            tables.add_to_total()
        return True

    def read(self, exchange: str) -> ExchangeContents | None:
        """An exchange by its id; None if it is not stored. A body that cannot be rebuilt has the reason."""
        row = self.tables.exchange(exchange)
        if row is None:
            return None
        bodies = tuple([self._read_body(body, row.key) for body in self.tables.bodies(exchange)])
        return ExchangeContents(id=row.id, time=row.time, key=row.key, bodies=bodies, reason=row.reason)

    def close(self) -> None:
        """Let go of the database."""
        self.tables.close()

    def _key(self, name: str) -> bytes:
        """The digest key of a gateway key: nothing of two keys has the same digest."""
        return blake2b(name.encode("utf-8", "surrogatepass"), key=self._secret, digest_size=32).digest()

    # Writing.

    def _prepare(self, exchange: str, body: StoredBody, reader: PieceReader) -> _PreparedBody:
        row = BodyRow(exchange=exchange, attempt=body.attempt, side=body.side, reason=body.reason)
        if body.reason:
            return _PreparedBody(row, ())
        parts = split(body.data)
        literals = _cleaned(parts, reader)
        lists = tuple([_prepared(elements, reader) for elements in parts.lists])
        whole = joined(literals, [each.elements for each in lists])
        recipe = Recipe(literals, tuple([_list_recipe(each) for each in lists]))
        digest = reader.digest(b"body", whole)
        packed = self._sealer.seal(compress(write_recipe(recipe)), _place(b"body", exchange.encode(), digest))
        row = BodyRow(
            exchange=exchange, attempt=body.attempt, side=body.side, size=len(whole), digest=digest, recipe=packed
        )
        return _PreparedBody(row, lists)

    def _write_list(self, prepared: _PreparedList) -> None:
        tables, nodes = self.tables, prepared.nodes
        for at in range(self._stored_count(nodes), len(nodes)):
            piece = prepared.pieces[at]
            cleaned = prepared.elements.elements[at]
            parent = nodes[at - 1] if at else NO_NODE
            tables.add_node(nodes[at], parent, piece.digest, self._use_piece(piece, without_breakpoints(cleaned)))

    def _stored_count(self, nodes: tuple[bytes, ...]) -> int:
        """How many of the lists that a list begins with are stored: where one is, all shorter ones are."""
        has_node = self.tables.has_node
        low, high = 0, len(nodes)
        for _ in range(_NEAR):
            if low == high or has_node(nodes[high - 1]):
                return high
            high -= 1
        while low < high:
            middle = (low + high + 1) // 2
            if has_node(nodes[middle - 1]):
                low = middle
            else:
                high = middle - 1
        return low

    def _use_piece(self, piece: Piece, content: bytes) -> bytes:
        """Use or add a piece; gives how the content differs from it."""
        tables, digest = self.tables, piece.digest
        spelling = tables.use_piece(digest)
        if spelling is None:
            body = self._sealer.seal(compress(content), _place(b"piece", digest))
            tables.add_piece(digest, piece.spelling, len(content), body)
            return b""
        if spelling == piece.spelling:
            return b""
        packed = difference(content, self._content(digest, *tables.piece(digest)))
        return self._sealer.seal(packed, _place(b"node", digest))

    # Reading.

    def _content(self, digest: bytes, size: int, body: bytes) -> bytes:
        return decompress(self._sealer.open(body, _place(b"piece", digest)), size)

    def _read_body(self, row: BodyRow, key: str) -> StoredBody:
        side = BodySide(row.side)
        if row.reason:
            return StoredBody(side=side, attempt=row.attempt, reason=row.reason)
        try:
            data = self._rebuilt(row)
        except StoreError as error:
            return StoredBody(side=side, attempt=row.attempt, reason=str(error))
        reader = PieceReader(self._key(key), self.redactor, self._cache)
        if len(data) != row.size or reader.digest(b"body", data) != row.digest:
            return StoredBody(side=side, attempt=row.attempt, reason="the stored body is damaged")
        return StoredBody(side=side, attempt=row.attempt, data=data)

    def _rebuilt(self, row: BodyRow) -> bytes:
        packed = self._sealer.open(row.recipe, _place(b"body", row.exchange.encode(), row.digest))
        recipe = read_recipe(decompress(packed, row.size + _MAX_RECIPE))
        return joined(recipe.literals, [self._elements(each) for each in recipe.lists])

    def _elements(self, recipe: ListRecipe) -> ElementList:
        elements = list(self._contents(recipe))
        if len(elements) != recipe.count:
            raise StoreError("pieces of the stored body are missing")
        for index, packed in recipe.differences:
            elements[index] = changed(elements[index], packed)
        return ElementList(recipe.separator, tuple(elements))

    def _contents(self, recipe: ListRecipe) -> Iterator[bytes]:
        for row in self.tables.elements(recipe.node, recipe.count):
            content = self._content(row.piece, row.size, row.body)
            if row.difference:
                content = changed(content, self._sealer.open(row.difference, _place(b"node", row.piece)))
            yield content


def open_archive(database: DatabaseLocation, redactor: ContentsRedactor, *, key: str = "") -> Archive:
    """Open the contents of a database, or make them. `ConfigError` if the key is another one than they were made
    with; then nothing is changed."""
    tables = open_contents(database)
    try:
        sealer = _sealer_of(tables, key)
        if sealer.encrypts:
            return Archive(tables, sealer, sealer.secret, redactor)
        return Archive(tables, sealer, _value(tables, "secret", os.urandom(_SECRET_SIZE)), redactor)
    except BaseException:
        tables.close()
        raise


def _sealer_of(tables: ContentsTables, key: str) -> Sealer:
    salt = tables.value("salt")
    if not key:
        if salt is not None:
            raise _wrong_key("the stored contents are encrypted", "set the key that they were stored with")
        return Sealer()
    if salt is None:
        if tables.value("secret") is not None:
            raise _wrong_key("the stored contents are not encrypted", "remove the key, or remove the stored contents")
        salt = _value(tables, "salt", os.urandom(SALT_SIZE))
    sealer = Sealer(key, salt)
    check = _value(tables, "check", sealer.seal(_CHECK, b"check"))
    try:
        sealer.open(check, b"check")
    except StoreError:
        raise _wrong_key("the stored contents are encrypted with another key", "set that key") from None
    return sealer


def _wrong_key(problem: str, remedy: str) -> ConfigError:
    return ConfigError(key="storage.contents.key", problem=problem, remedy=remedy)


def _value(tables: ContentsTables, name: str, first: bytes) -> bytes:
    """A stored value; the one that is given if there is none."""
    with tables.transaction():
        tables.set_value(name, first)
        value = tables.value(name)
    assert value is not None
    return value


def _place(table: bytes, *names: bytes) -> bytes:
    return b"\0".join((table, *names))


def _cleaned(parts: SplitBody, reader: PieceReader) -> tuple[bytes, ...]:
    """The literals without credentials, which may be in a member before and behind a list."""
    cleaned = tuple(reader.clean(_NUL.join(parts.literals)).split(_NUL))
    return cleaned if len(cleaned) == len(parts.literals) else tuple([reader.clean(each) for each in parts.literals])


def _prepared(elements: ElementList, reader: PieceReader) -> _PreparedList:
    pieces = tuple([reader.piece(element) for element in elements.elements])
    nodes: list[bytes] = []
    node = NO_NODE
    for piece in pieces:
        node = reader.digest(b"node", node, piece.digest, piece.spelling)
        nodes.append(node)
    cleaned = tuple(
        [
            element if piece.cleaned is None else piece.cleaned
            for element, piece in zip(elements.elements, pieces, strict=True)
        ]
    )
    return _PreparedList(ElementList(elements.separator, cleaned), pieces, tuple(nodes))


def _list_recipe(prepared: _PreparedList) -> ListRecipe:
    differences = tuple([(index, piece.difference) for index, piece in enumerate(prepared.pieces) if piece.difference])
    return ListRecipe(prepared.nodes[-1], len(prepared.nodes), prepared.elements.separator, differences)
