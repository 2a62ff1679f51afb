// SPDX-License-Identifier: Apache-2.0
/// \file
/// A store of three people, and what the tests of the program do with it.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tool/program.hpp"

namespace tool_test {

inline const std::string schema =
    R"({"spolia_dump":1,"tables":[{"name":"people","primary":"ordered","columns":[)"
    R"({"name":"id","type":"int64","key":true},{"name":"name","type":"text","bytes":20},)"
    R"({"name":"weight","type":"float64","nullable":true}],)"
    R"("indexes":[{"name":"by_name","columns":["name"],"unique":true},)"
    R"({"name":"same_name","columns":["name"],"unique":false,"kind":"hash"}]}]})";
inline const std::string people =
    "id,name,weight\r\n1,Ada,55.5\r\n2,\"Bo, \"\"b\"\"\",\r\n3,\"\",0.1\r\n";

class tool_program : public program {
 protected:
  tool_program() {
    write_text(here / "schema.json", schema);
    write_text(here / "people.csv", people);
  }
  void make_bank() const {
    EXPECT_EQ(good({"load", "bank", "people.csv", "--table", "people", "--schema", "schema.json"}),
              "3 rows inserted\n");
  }
  [[nodiscard]] std::string csv(const std::string& store) const {
    return good({"dump", store, "-", "--table", "people", "--format", "csv"});
  }
};

}  // namespace tool_test
