from grimp import ImportGraph

from tests.repository.import_contracts import ForeignImport, foreign_imports


def graph_of(*imports: tuple[str, str]) -> ImportGraph:
    graph = ImportGraph()
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    return graph


def test_allows_itself_the_standard_library_and_what_is_listed() -> None:
    graph = graph_of(
        ("box.a", "box.b"), ("box.a", "json"), ("box.b", "numpy"), ("box.b", "wire.topics"), ("other", "torch")
    )

    assert foreign_imports(graph, packages={"box"}, except_packages=(), may_import={"numpy", "wire"}) == []


def test_reports_what_is_not_listed_in_order_of_name() -> None:
    graph = graph_of(("box.b", "torch"), ("box.a", "numpyro"), ("box.a", "numpy"))

    assert foreign_imports(graph, packages={"box"}, except_packages=(), may_import={"numpy"}) == [
        ForeignImport("box.a", "numpyro"),
        ForeignImport("box.b", "torch"),
    ]


def test_treats_an_excepted_package_as_foreign_and_does_not_judge_it() -> None:
    graph = graph_of(("box.server", "box.command"), ("box.command", "rich"))

    assert foreign_imports(graph, packages={"box"}, except_packages={"box.command"}, may_import=()) == [
        ForeignImport("box.server", "box.command")
    ]


def test_finds_nothing_in_a_package_that_does_not_exist() -> None:
    assert foreign_imports(graph_of(), packages={"box"}, except_packages=(), may_import=()) == []
