"""What may a package import from outside itself?

A contract type for import-linter that works by permission: it lists what may be imported, so that a new
dependency has to be written down before it can be used. The standard library is always allowed. Direct imports
only; import-linter's own `forbidden` contract follows chains.
"""

import sys
from collections.abc import Collection, Iterator
from typing import NamedTuple, cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class ForeignImport(NamedTuple):
    """One import that no entry of the contract allows."""

    importer: str
    imported: str


class AllowedImportsContract(Contract):
    """Keeps the modules of `packages`, without those of `except_packages`, to themselves and `may_import`.

    All three are lists of dotted names, and a name stands for all that lies below it. A package that doesn't
    exist has no imports and keeps its contract.
    """

    type_name = "allowed_imports"

    packages = fields.SetField(subfield=fields.StringField())
    except_packages = fields.SetField(subfield=fields.StringField(), required=False, default=frozenset())
    may_import = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find the imports that aren't allowed; `verbose` changes nothing here."""
        found = foreign_imports(
            graph,
            packages=_names(self.packages),
            except_packages=_names(self.except_packages),
            may_import=_names(self.may_import),
        )
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each import that isn't allowed."""
        for importer, imported in check.metadata["found"]:
            output.print_error(f"{importer} imports {imported}", bold=False)
        output.print(f"Allowed beside the standard library: {', '.join(sorted(_names(self.may_import)))}")


def _names(option: object) -> frozenset[str]:
    # import-linter replaces each field by the set that it parsed; type checkers still see the field.
    return frozenset(cast("set[str]", option))


def foreign_imports(
    graph: ImportGraph,
    *,
    packages: Collection[str],
    except_packages: Collection[str],
    may_import: Collection[str],
) -> list[ForeignImport]:
    """List, in order of name, the direct imports of `packages` that lead to something not allowed."""

    def is_own(module: str) -> bool:
        return _lies_in(module, packages=packages) and not _lies_in(module, packages=except_packages)

    def is_allowed(module: str) -> bool:
        top_level_name = module.partition(".")[0]
        return top_level_name in sys.stdlib_module_names or _lies_in(module, packages=may_import)

    def walk() -> Iterator[ForeignImport]:
        for importer in filter(is_own, graph.modules):
            for imported in graph.find_modules_directly_imported_by(importer):
                if not is_own(imported) and not is_allowed(imported):
                    yield ForeignImport(importer, imported)

    return sorted(walk())


def _lies_in(module: str, *, packages: Collection[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
