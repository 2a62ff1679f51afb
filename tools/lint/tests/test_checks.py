# SPDX-License-Identifier: Apache-2.0
"""Each check finds what it is there for, and leaves alone what only looks like it."""

import pathlib
import tempfile
import unittest

from lint import (
    banned,
    departures,
    faults,
    floors,
    headers,
    limits,
    messages,
    orders,
    prose,
    references,
    tables,
    words,
)
from lint.source import blank, files_of, tree


def findings(module, **files):
    """What a check finds in a tree of these files."""
    return sorted(module.check(tree(pathlib.Path("/"), files)))


def in_file(module, path, text):
    return [(line, message) for _, line, message in findings(module, **{path: text})]


class Files(unittest.TestCase):
    def test_outside_of_a_clone(self):
        kept = [".gitignore", ".ci/run", "dev", "tools/build/a.py"]
        left_out = ["build/b.o", "tools/__pycache__/a.pyc", "tools/c.pyc", ".git/config"]
        with tempfile.TemporaryDirectory() as root:
            for name in kept + left_out:
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("/build/\n__pycache__/\n*.pyc\n", encoding="utf-8")
            self.assertEqual(files_of(pathlib.Path(root)), sorted(kept))


class Blank(unittest.TestCase):
    def test_keeps_lines_and_columns(self):
        text = "int a; // {\n/* {\n { */ char b = '{'; auto c = \"{\\\"{\"; int d = 1'000;\n"
        code = blank(text)
        self.assertEqual([len(line) for line in text.split("\n")], list(map(len, code.split("\n"))))
        self.assertNotIn("{", code)
        self.assertIn("int d = 1'000;", code)

    def test_raw_strings(self):
        self.assertEqual(blank('R"x({ " )x";').strip(), ";")


class Floors(unittest.TestCase):
    def test_a_lower_room_may_not_look_up(self):
        found = in_file(floors, "include/spolia/base/a.hpp", "\n#include <spolia/map/list.hpp>\n")
        self.assertEqual(found, [(2, "base may not include spolia/map/list.hpp")])

    def test_a_higher_room_may_look_down(self):
        text = "#include <spolia/base/a.hpp>\n#include <spolia/reclaim/b.hpp>\n#include <vector>\n"
        self.assertEqual(in_file(floors, "include/spolia/map/list.hpp", text), [])

    def test_faces(self):
        own = "#include <spolia/reclaim/domain.hpp>\n"
        self.assertEqual(in_file(floors, "include/spolia/reclaim.hpp", own), [])
        up = "#include <spolia/map/list.hpp>\n"
        self.assertEqual(len(in_file(floors, "include/spolia/reclaim.hpp", up)), 1)
        face = "#include <spolia/reclaim.hpp>\n"
        self.assertEqual(len(in_file(floors, "include/spolia/map/list.hpp", face)), 1)
        self.assertEqual(in_file(floors, "bench/main.cpp", face), [])

    def test_only_base_sees_the_model(self):
        text = "#  include <spolia/model/hooks.hpp>\n"
        self.assertEqual(in_file(floors, "include/spolia/base/atomic.hpp", text), [])
        self.assertEqual(len(in_file(floors, "include/spolia/reclaim/a.hpp", text)), 1)

    def test_programs_do_not_reach_into_each_other(self):
        self.assertEqual(len(in_file(floors, "bench/a.cpp", '#include "tests/support/b.hpp"\n')), 1)
        self.assertEqual(in_file(floors, "bench/a.cpp", '#include "b.hpp"\n'), [])

    def test_sources_see_what_their_room_sees(self):
        face = "#include <spolia/rcu.hpp>\n"
        self.assertEqual(in_file(floors, "src/reclaim/rcu.cpp", face), [])
        self.assertEqual(len(in_file(floors, "src/version/a.cpp", face)), 1)
        up = "#include <spolia/map/abtree.hpp>\n"
        self.assertEqual(in_file(floors, "src/db/index/a.hpp", up), [])
        self.assertEqual(len(in_file(floors, "src/counted/a.cpp", up)), 1)
        engine = '#include "db/engine.hpp"\n'
        self.assertEqual(in_file(floors, "src/db/log/a.cpp", engine), [])
        self.assertEqual(len(in_file(floors, "src/reclaim/a.cpp", engine)), 1)

    def test_unknown_rooms_and_quoted_library_headers(self):
        self.assertEqual(len(in_file(floors, "include/spolia/attic/a.hpp", "")), 1)
        self.assertEqual(len(in_file(floors, "include/spolia/base/a.hpp", '#include "b.hpp"\n')), 1)
        self.assertEqual(len(in_file(floors, "src/a.cpp", '#include "spolia/base/b.hpp"\n')), 1)

    def test_doors(self):
        inside = "#include <spolia/reclaim/detail/a.hpp>\n"
        self.assertEqual(in_file(floors, "include/spolia/reclaim/b.hpp", inside), [])
        self.assertEqual(in_file(floors, "include/spolia/rcu.hpp", inside), [])
        self.assertEqual(in_file(floors, "tests/reclaim/b_test.cpp", inside), [])
        self.assertEqual(len(in_file(floors, "include/spolia/rlu/b.hpp", inside)), 1)
        self.assertEqual(in_file(floors, "src/reclaim/b.cpp", inside), [])
        self.assertEqual(len(in_file(floors, "src/db/b.cpp", inside)), 1)
        self.assertEqual(len(in_file(floors, "bench/b.cpp", inside)), 1)
        lent = "#include <spolia/reclaim/detail/numbered.hpp>\n"
        self.assertEqual(in_file(floors, "include/spolia/map/b.hpp", lent), [])
        self.assertEqual(len(in_file(floors, "include/spolia/map/b.hpp", inside)), 1)
        self.assertEqual(len(in_file(floors, "include/spolia/rlu/b.hpp", lent)), 1)

    def test_cycles(self):
        folder = "include/spolia/base/"
        three = {
            folder + "a.hpp": "#include <spolia/base/b.hpp>\n",
            folder + "b.hpp": "#include <spolia/base/c.hpp>\n",
            folder + "c.hpp": "",
        }
        self.assertEqual(findings(floors, **three), [])
        three[folder + "c.hpp"] = "#include <spolia/base/a.hpp>\n"
        self.assertEqual([path for path, _, _ in findings(floors, **three)], [folder + "c.hpp"])


class Orders(unittest.TestCase):
    PATH = "include/spolia/reclaim/a.hpp"

    def test_raw_atomics_only_in_the_plumbing(self):
        text = "std::atomic<int> a;\nstd::memory_order_relaxed;\nstd::atomic_ref<int> b(c);\n"
        self.assertEqual([line for line, _ in in_file(orders, self.PATH, text)], [1, 2, 3])
        self.assertEqual([line for line, _ in in_file(orders, "bench/a.cpp", text)], [1, 2, 3])
        for plumbing in ("include/spolia/base/a.hpp", "src/db/a.cpp", "tests/a.cpp"):
            self.assertEqual(in_file(orders, plumbing, text), [])
        self.assertEqual(len(in_file(orders, "src/db/a.hpp", text)), 3)
        strong = "a.load_acquire();\n"
        self.assertEqual(len(in_file(orders, "src/db/a.hpp", strong)), 1)

    def test_words_in_comments_do_not_count(self):
        self.assertEqual(in_file(orders, self.PATH, "// std::atomic\n/* memory_order */\n"), [])

    def test_each_strong_operation_needs_a_comment(self):
        for operation in (
            "a.load_acquire()",
            "p->store_release(1)",
            "a.cas_weak_acq_rel(x, y)",
            "a.fetch_add_seq_cst(1)",
            "fence::light()",
            "spolia::fence::heavy()",
            "fence::full ()",
            "a.load_acquire\n  ()",
        ):
            with self.subTest(operation):
                self.assertEqual(len(in_file(orders, self.PATH, operation + ";\n")), 1)
        self.assertEqual(in_file(orders, self.PATH, "a.load_relaxed();\n"), [])

    def test_how_near_the_comment_has_to_be(self):
        use = "a.load_acquire();"
        self.assertEqual(in_file(orders, self.PATH, use + "  // pairs with b\n"), [])
        self.assertEqual(in_file(orders, self.PATH, "// why\n\n\n\n" + use + "\n"), [])
        self.assertEqual(len(in_file(orders, self.PATH, "// why\n\n\n\n\n" + use + "\n")), 1)
        self.assertEqual(in_file(orders, self.PATH, "/* why\n   and\n */\n\n\n\n" + use + "\n"), [])

    def test_a_comment_mark_in_a_string_is_no_comment(self):
        self.assertEqual(len(in_file(orders, self.PATH, 'f("// why"); a.load_acquire();\n')), 1)

    def test_the_definition_of_an_operation_needs_none(self):
        self.assertEqual(in_file(orders, self.PATH, "T load_acquire() const;\n"), [])


class Headers(unittest.TestCase):
    SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
    LISTS = {
        "cmake/sources.cmake": "# SPDX-License-Identifier: Apache-2.0\n"
        "set(SPOLIA_SOURCES\n    src/a.cpp)\nset(SPOLIA_MODEL_SOURCES)\n",
        "include/spolia/a.hpp": SPDX + "#pragma once\n",
        "src/a.cpp": SPDX,
        "tests/package/consumer/all.hpp": SPDX + "#pragma once\n#include <spolia/a.hpp>\n",
    }

    def test_a_tree_in_order(self):
        self.assertEqual(findings(headers, **self.LISTS), [])

    def test_licence_line(self):
        for path, text in (("src/a.cpp", "\n" + self.SPDX), ("lab/a.py", "import os\n")):
            with self.subTest(path):
                self.assertEqual(len(findings(headers, **{**self.LISTS, path: text})), 1)
        script = "#!/usr/bin/env python3\n# SPDX-License-Identifier: Apache-2.0\n"
        self.assertEqual(findings(headers, **{**self.LISTS, "lab/a.py": script}), [])

    def test_pragma_once(self):
        found = findings(headers, **{**self.LISTS, "include/spolia/a.hpp": self.SPDX})
        self.assertEqual(found, [("include/spolia/a.hpp", 1, "no #pragma once")])

    def test_lists_name_what_is_there(self):
        more = {"src/model/e.cpp": self.SPDX}
        messages = [message for _, _, message in findings(headers, **self.LISTS, **more)]
        self.assertEqual(messages, ["SPOLIA_MODEL_SOURCES lacks src/model/e.cpp"])
        test = {"tests/base/a_test.cpp": self.SPDX}
        self.assertEqual(len(findings(headers, **self.LISTS, **test)), 1)
        build = (
            "# SPDX-License-Identifier: Apache-2.0\nspolia_add_test(NAME a SOURCES a_test.cpp)\n"
        )
        test["tests/base/CMakeLists.txt"] = build
        self.assertEqual(findings(headers, **self.LISTS, **test), [])
        less = {name: text for name, text in self.LISTS.items() if name != "src/a.cpp"}
        self.assertEqual(len(findings(headers, **less)), 1)

    def test_umbrella_headers_are_in_the_consumer_and_reach_all_others(self):
        more = {"include/spolia/b.hpp": self.SPDX + "#pragma once\n"}
        messages = [message for _, _, message in findings(headers, **self.LISTS, **more)]
        self.assertEqual(messages, ["does not include <spolia/b.hpp>"])
        inside = "include/spolia/room/detail/c.hpp"
        lone = {inside: self.SPDX + "#pragma once\n"}
        self.assertEqual([path for path, _, _ in findings(headers, **self.LISTS, **lone)], [inside])
        way = self.SPDX + "#pragma once\n#include <spolia/room/detail/c.hpp>\n"
        lone["include/spolia/a.hpp"] = way
        self.assertEqual(findings(headers, **{**self.LISTS, **lone}), [])
        of_the_model = {"include/spolia/model/d.hpp": self.SPDX + "#pragma once\n"}
        self.assertEqual(findings(headers, **self.LISTS, **of_the_model), [])

    def test_the_other_flavour_has_the_whole_store(self):
        sources = (
            "# SPDX-License-Identifier: Apache-2.0\nset(SPOLIA_MODEL_SOURCES)\nset(SPOLIA_SOURCES"
        )
        sources += "\n    src/a.cpp\n    src/db/log.cpp\n    src/db/other_flavour.cpp)\n"
        lists = {**self.LISTS, "cmake/sources.cmake": sources, "src/db/log.cpp": self.SPDX}
        other = self.SPDX + '#include "db/log.cpp"\n'
        self.assertEqual(findings(headers, **lists, **{"src/db/other_flavour.cpp": other}), [])
        found = findings(headers, **lists, **{"src/db/other_flavour.cpp": self.SPDX})
        self.assertEqual(found, [("src/db/other_flavour.cpp", 1, "does not include db/log.cpp")])


class Faults(unittest.TestCase):
    PLANTED = 'if (SPOLIA_FAULT("a.b")) f();\n'

    def test_each_planted_fault_is_looked_for(self):
        tree = {"include/spolia/a.hpp": self.PLANTED}
        test = {"tests/model/a_test.cpp": 'expect_found(f, "a.b", at_most(2), "race");\n'}
        self.assertEqual(findings(faults, **tree, **test), [])
        self.assertEqual(
            findings(faults, **tree),
            [("include/spolia/a.hpp", 1, "no model test looks for a.b")],
        )

    def test_what_is_looked_for_is_planted(self):
        test = {"tests/model/a_test.cpp": '\nexpect_found<s>(&f, "a.c");\n'}
        self.assertEqual(
            findings(faults, **test), [("tests/model/a_test.cpp", 2, "a.c is planted nowhere")]
        )

    def test_what_is_found_has_a_reason(self):
        tree = {"include/spolia/a.hpp": self.PLANTED}
        test = {"tests/model/a_test.cpp": 'expect_found(f, "a.b", at_most(2), "");\n'}
        self.assertEqual(len(findings(faults, **tree, **test)), 1)


class References(unittest.TestCase):
    def test_files_that_comments_name_exist(self):
        there = {"include/spolia/base/b.hpp": "", "docs/db.md": ""}
        text = "// see b.hpp, base/b.hpp, <spolia/base/b.hpp> and docs/db.md\n"
        self.assertEqual(findings(references, **there, **{"src/a.cpp": text}), [])
        for name in ("c.hpp", "map/b.hpp", "docs/gone.md"):
            found = findings(references, **there, **{"src/a.cpp": f"int x;  // see {name}\n"})
            self.assertEqual(found, [("src/a.cpp", 1, f"there is no {name}")])
        self.assertEqual(findings(references, **{"src/a.cpp": 'f("c.hpp");\n'}), [])


class Limits(unittest.TestCase):
    def test_columns_and_files(self):
        self.assertEqual(in_file(limits, "src/a.cpp", "x" * 100 + "\n"), [])
        self.assertEqual(len(in_file(limits, "src/a.cpp", "x" * 101 + "\n")), 1)
        self.assertEqual(in_file(limits, "src/a.cpp", "\n" * 900), [])
        self.assertEqual(len(in_file(limits, "src/a.cpp", "\n" * 901)), 1)
        self.assertEqual(len(in_file(limits, "tests/a.cpp", "\n" * 901)), 1)

    def test_a_class_stands_in_two_headers(self):
        class_text = "template <class T>\nclass a {\n  void f();\n  struct part;\n};\n"
        member = "template <class T>\nvoid a<T>::{}(std::size_t n) {{\n  b<T>::g(n);\n}}\n"
        files = {
            "include/spolia/map/a.hpp": class_text + member.format("f"),
            "include/spolia/map/detail/a_impl.hpp": "void own() {\n}\n" + member.format("g"),
        }
        self.assertEqual(findings(limits, **files), [])
        elsewhere = {"include/spolia/rlu/a.hpp": member.format("g")}  # a class of that name there
        self.assertEqual(findings(limits, **files, **elsewhere), [])
        third = {"include/spolia/map/detail/more.hpp": member.format("part::h")}
        self.assertEqual(
            findings(limits, **files, **third),
            [
                (
                    "include/spolia/map/detail/more.hpp",
                    1,
                    "the class a stands in more than two headers",
                )
            ],
        )

    def test_long_functions(self):
        body = "  f();\n" * 69
        self.assertEqual(len(in_file(limits, "src/a.cpp", "void g() {\n" + body + "}\n")), 1)
        self.assertEqual(in_file(limits, "src/a.cpp", "void g() {\n" + body[7:] + "}\n"), [])

    def test_where_functions_are(self):
        text = (
            "namespace a::inline B {\n"  # 1
            "template <class T, int n = (1 > 0)>\n"
            "  requires(sizeof(T) <= 8)\n"
            "class alignas(64) c : public d<T> {\n"
            "  c() : x_{1}, y_(2) {\n"  # 5
            "    if (x_) {\n"
            "    }\n"
            "  }\n"
            "  struct e* f(int g = 0) noexcept(true) { return nullptr; }\n"
            "  int x_{0};\n"  # 10
            "  int y_[2] = {1, 2};\n"
            "  enum class h { i };\n"
            "};\n"
            "#define J {\n"
            "inline void k() {\n"  # 15
            "  auto l = [] {\n"
            "  };\n"
            "}\n"
            "}  // namespace\n"
            "void m()\n"  # 20
            "{\n"
            "}\n"
        )
        self.assertEqual(list(limits.functions(text)), [(5, 8), (9, 9), (15, 18), (20, 22)])


class Banned(unittest.TestCase):
    def test_unfinished(self):
        for word in ("TODO", "FIXME", "XXX", "HACK"):
            with self.subTest(word):
                self.assertEqual(len(in_file(banned, "README.md", f"a {word}: b\n")), 1)
        self.assertEqual(in_file(banned, "README.md", "HACKING XXXXXX todo\n"), [])

    def test_paths_of_one_machine(self):
        for path in ("/root/x", "'/work/main'", "see /home/me/y"):
            with self.subTest(path):
                self.assertEqual(len(in_file(banned, "dev", path + "\n")), 1)
        self.assertEqual(in_file(banned, "dev", "a/work/b ${x}/work/ /usr/lib/root/\n"), [])


class Words(unittest.TestCase):
    PATH = "include/spolia/reclaim/a.hpp"
    LIST = "tools/lint/unfinished_words.txt"

    def test_a_word_in_a_new_file(self):
        found = in_file(words, self.PATH, "// One.\n// Nobody waits.\n")
        self.assertEqual([line for line, _ in found], [2])
        self.assertIn("'Nobody': docs/glossary.md has", found[0][1])
        for path, text in (
            ("docs/a.md", "by and by"),
            ("src/a.cpp", "int a; /* a\n * flavour */"),
            ("cmake/a.cmake", "set(x 1)  # it is settled"),
        ):
            with self.subTest(path):
                self.assertEqual(len(in_file(words, path, text)), 1)

    def test_names_are_not_words(self):
        text = (
            'purse nobody; f("nobody");\n// `horizon`, horizon(x), horizon.hpp and rlu::crowd\n'
            "// SPOLIA_FLAVOUR_OF and told_stamp; unsettled\n"
        )
        self.assertEqual(in_file(words, self.PATH, text), [])
        self.assertEqual(in_file(words, "cmake/a.cmake", "set(nobody 1)\n"), [])
        self.assertEqual(in_file(words, "docs/glossary.md", "nobody"), [])

    def test_an_unfinished_file(self):
        files = {self.PATH: "// nobody\n", self.LIST: "# why\n\n" + self.PATH + "\n"}
        self.assertEqual(findings(words, **files), [])
        files[self.PATH] = "// no thread\n"
        self.assertIn("take it out", findings(words, **files)[0][2])
        del files[self.PATH]
        self.assertIn(f"there is no {self.PATH}", findings(words, **files)[0][2])


class Prose(unittest.TestCase):
    PAGE = "docs/a.md"

    def test_forms_that_have_to_be_decoded(self):
        for text in ("Who wants it all calls sync().", "It is besides quick.", "I.e. you wait."):
            with self.subTest(text):
                self.assertEqual(len(in_file(prose, self.PAGE, f"# A\n\n{text}\n")), 1)
        found = in_file(prose, self.PAGE, "# A\n\nIt is.\nIt waits in vain.\n")
        self.assertEqual([line for line, _ in found], [4])

    def test_code_is_not_prose(self):
        text = "# A\n\nUse `besides`.\n\n    int besides;\n\n```cpp\nint shall;\n```\n"
        self.assertEqual(in_file(prose, self.PAGE, text), [])
        self.assertEqual(in_file(prose, "docs/glossary.md", "Not: besides.\n"), [])
        self.assertEqual(in_file(prose, "lab/README.md", "It is besides quick.\n"), [])

    HARD = (
        "The reclamation of heterogeneous allocations necessitates considerable coordination among "
        "participating execution contexts, notwithstanding their independent administration.\n"
    )

    def test_a_snippet_that_is_compiled_elsewhere(self):
        page = "<!-- elsewhere: tests/a.cpp -->\n\n```cpp\nint a;\nint b;\n```\n"
        files = {"docs/a.md": page, "tests/a.cpp": "// x\nint a;\nint b;\n"}
        self.assertEqual(findings(prose, **files), [])
        changed = {**files, "tests/a.cpp": "// x\nint a;\nint c;\n"}
        self.assertEqual([f[:2] for f in findings(prose, **changed)], [("docs/a.md", 1)])
        self.assertEqual(len(findings(prose, **{"docs/a.md": page})), 1)

    def test_a_page_that_is_hard_to_read(self):
        for text in (self.HARD, "| a | " + self.HARD.strip() + " |\n"):
            self.assertIn("grade", in_file(prose, self.PAGE, text)[0][1])
        self.assertEqual(in_file(prose, self.PAGE, "You wait for the disk. It is slow.\n"), [])

    def test_the_grade_is_that_of_the_formula(self):
        # 12 words in 3 sentences, of which one ends with its item; 14 syllables.
        text = "You wait for the disk. It is slow.\n\n* the reader goes away\n"
        self.assertAlmostEqual(prose.grade_of(text), 0.39 * 12 / 3 + 11.8 * 14 / 12 - 15.59)

    def test_guarantees_name_tests_that_exist(self):
        files = {
            "tests/a/CMakeLists.txt": "spolia_add_test(NAME pins SOURCES a.cpp)\n",
            prose.GUARANTEES: "| promise | shown by |\n|---|---|\n| It holds. | `pins`, `pans` |\n",
        }
        found = findings(prose, **files)
        self.assertEqual([f[2] for f in found], ["there is no test pans"])

    def test_messages_that_are_explained_are_in_the_code(self):
        files = {
            "src/a.cpp": 'report("a block was "\n       "retired twice");\n',
            prose.MESSAGES: "| `a block was retired twice` | x |\n| `a block is gone` | x |\n",
        }
        found = findings(prose, **files)
        self.assertEqual([f[1:] for f in found], [(2, "no program says 'a block is gone'")])


class Messages(unittest.TestCase):
    """A page of its own, and what the code reports."""

    PAGE = "| message | cause |\n|---|---|\n| `a block was retired twice` | x |\n"

    def reported(self, path, text):
        found = findings(messages, **{messages.PAGE: self.PAGE, path: text})
        return [(f[0], f[1], f[2].removeprefix("docs/errors.md ")) for f in found]

    def test_a_misuse_that_is_not_explained(self):
        text = '\n  misuse::report("a block is "\n                 "lost in a pool", n);\n'
        found = self.reported("include/a.hpp", text)
        self.assertEqual(
            found, [("include/a.hpp", 2, "does not explain 'a block is lost in a pool'")]
        )

    def test_one_that_says_more_than_the_page(self):
        text = 'core::report_misuse("a block was retired twice: once is enough", n);\n'
        self.assertEqual(self.reported("src/a.cpp", text), [])

    def test_a_fault_of_a_store_and_of_the_tool(self):
        text = 'throw storage_error(name, at, std::string(why) + ", and it was whole before");\n'
        self.assertEqual(len(self.reported("src/db/log/a.cpp", text)), 1)
        self.assertEqual(self.reported("src/db/query/a.cpp", text), [])
        text = 'throw failure(fmt::format("{}: {} is not there any more", a, b));\n'
        self.assertEqual(len(self.reported("tool/a.cpp", text)), 1)

    def test_few_words_and_other_calls(self):
        text = 'misuse::report("gone", n);\nthrow failure("cannot " + what + " " + name);\n'
        self.assertEqual(self.reported("tool/a.cpp", text), [])

    def test_an_outcome_without_a_line(self):
        text = 'case outcome::ok:\n return "ok";\ncase outcome::gone:\n return "it went";\n'
        found = self.reported(messages.OUTCOMES, text)
        self.assertEqual(found, [(messages.OUTCOMES, 1, "has no line for 'it went'")])


class Departures(unittest.TestCase):
    """The page is made of the heads of headers, in a tree of its own."""

    PATH = "include/spolia/reclaim/mine.hpp"
    HEAD = """\
// SPDX-License-Identifier: Apache-2.0
// mine.hpp: frees what domain<mine>
// has.
//
// Source:      A. Author: PPoPP
//              2010. In three forms:
//                mine_first   frees first
//                             of all
//                mine_last    frees last
//              The last is usual.
// Idea:        a thread asks `all` others.
// Bound:       none.
//
// Departures from the paper:
//   D1  No fence, see other.hpp; a <= b
//       holds.
//   D2  Two bags.
// What follows is another matter.
#pragma once
// Departures: not of the head
"""
    TOLD = """\
## Schemes

### `mine`

[`spolia/reclaim/mine.hpp`](../include/spolia/reclaim/mine.hpp): frees what `domain<mine>` has.

*Source:* A. Author: PPoPP 2010. In three forms:

* `mine_first`: frees first of all
* `mine_last`: frees last

The last is usual.

*Idea:* a thread asks `all` others.

*Departures from the paper:*

* D1: No fence, see `other.hpp`; a \\<= b holds.
* D2: Two bags.
"""

    def test_what_a_head_says(self):
        page = departures.page_of(tree(pathlib.Path("/"), {self.PATH: self.HEAD}))
        self.assertEqual(page.removeprefix(departures.FRONT + "\n"), self.TOLD)

    def test_other_forms(self):
        one = (
            "//\n// mine.hpp: x.\n//\n// Departure from it: no ring. (There\n// is one.)\n#pragma\n"
        )
        column = (
            "//\n// y.hpp: y.\n// Departures:  D1  No\n//                  ring.\n// Cost:  1\n"
        )
        plain = "//\n// z.hpp: z.\n//\n// Idea:  no source.\n"
        files = {self.PATH: one, "include/spolia/map/y.hpp": column, "src/db/z.hpp": plain}
        page = departures.page_of(tree(pathlib.Path("/"), files))
        self.assertIn("\n*Departure from it:* no ring. (There is one.)\n", page)
        self.assertIn("\n*Departures:*\n\n* D1: No ring.\n", page)
        self.assertNotIn("`z`", page)

    def test_a_page_that_is_not_written_anew(self):
        files = {self.PATH: self.HEAD}
        page = departures.page_of(tree(pathlib.Path("/"), files))
        self.assertEqual([f[:2] for f in findings(departures, **files)], [(departures.PAGE, 1)])
        self.assertEqual(findings(departures, **files, **{departures.PAGE: page}), [])
        changed = {self.PATH: self.HEAD.replace("Two bags", "Three bags")}
        found = findings(departures, **changed, **{departures.PAGE: page})
        self.assertEqual([f[:2] for f in found], [(departures.PAGE, 1)])


class Tables(unittest.TestCase):
    """In a tree of its own list and guide."""

    LIST = "include/spolia/reclaim/schemes.hpp"
    GUIDE = "docs/schemes.md"
    CODE = "using every_scheme =\n    List<none, /* the default: */ token>;\n"
    TABLE = "text\n\n| scheme | source |\n|---|---|\n| `none` | `x` |\n| `token` | |\n\n| `y` |\n"

    def found(self, code=CODE, table=TABLE):
        files = {self.LIST: code, self.GUIDE: table}
        return [f for f in findings(tables, **files) if f[0] in files and "| collector" not in f[2]]

    def test_the_same_names(self):
        self.assertEqual(self.found(), [])

    def test_a_name_without_a_row(self):
        found = self.found(self.CODE.replace("none", "none, debra"))
        self.assertEqual([(path, line) for path, line, _ in found], [(self.GUIDE, 3)])
        self.assertIn("lacks `debra`", found[0][2])

    def test_a_row_without_a_name(self):
        found = self.found(self.CODE.replace("none, ", ""))
        self.assertEqual([line for _, line, _ in found], [3])
        self.assertIn("shows `none`", found[0][2])

    def test_a_list_or_a_table_that_is_gone(self):
        self.assertIn(self.LIST, [path for path, _, _ in self.found("\n")])
        found = self.found(table="| scheme | x |\n")
        self.assertEqual([path for path, _, _ in found], [self.GUIDE])

    def test_a_line_that_has_all_names(self):
        code = "using every_collector =\n    List<bbf<Parameters...>, steam<Parameters...>>;\n"
        files = {
            "include/spolia/version/collectors.hpp": code,
            "docs/bench.md": "| `collector` | `bbf`, `copies` |\n",
        }
        found = [f for f in findings(tables, **files) if f[0] == "docs/bench.md"]
        self.assertEqual([message.split(",")[0] for _, _, message in found], ["lacks `steam`"])


if __name__ == "__main__":
    unittest.main()
