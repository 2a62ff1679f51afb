// SPDX-License-Identifier: Apache-2.0
// report.cpp: tables of operations.
#include "support/report.hpp"

namespace spolia::test {
namespace {

constexpr std::size_t rows_at_each_end = 20;

std::string call(const char* name, std::uint64_t a) {
  return std::string(name) + "(" + std::to_string(a) + ")";
}

std::string call(const char* name, std::uint64_t a, std::uint64_t b) {
  return std::string(name) + "(" + std::to_string(a) + ", " + std::to_string(b) + ")";
}

void pad(std::string& line, const std::string& text, std::size_t width) {
  line += text;
  line.append(text.size() < width ? width - text.size() : 0, ' ');
  line += "  ";
}

}  // namespace

std::string render(std::vector<report_row> rows) {
  std::sort(rows.begin(), rows.end(), [](const report_row& a, const report_row& b) {
    return a.start != b.start ? a.start < b.start : a.thread < b.thread;
  });
  std::size_t operation_width = std::string("operation").size();
  std::size_t result_width = std::string("result").size();
  for (const report_row& row : rows) {
    operation_width = std::max(operation_width, row.operation.size());
    result_width = std::max(result_width, row.result.size());
  }
  std::string text;
  const auto line = [&](const std::string& thread, const std::string& operation,
                        const std::string& result, const std::string& start, const std::string& end,
                        const std::string& note) {
    text += "  ";
    pad(text, thread, 6);
    pad(text, operation, operation_width);
    pad(text, result, result_width);
    pad(text, start, 10);
    pad(text, end, 10);
    text += note;
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  };
  line("thread", "operation", "result", "start", "end", "");
  const std::uint64_t origin = rows.empty() ? 0 : rows.front().start;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t hidden = rows.size() - std::min(rows.size(), 2 * rows_at_each_end);
    if (hidden > 0 && i == rows_at_each_end) {
      text += "  ... " + std::to_string(hidden) + " more ...\n";
      i += hidden;
    }
    const report_row& row = rows[i];
    line(std::to_string(row.thread), row.operation, row.result, std::to_string(row.start - origin),
         std::to_string(row.end - origin), row.note);
  }
  return text;
}

report_row describe(const map_event& e) {
  report_row row{e.start, e.end, e.thread, "", e.ok ? "true" : "false", ""};
  switch (e.op) {
    case map_op::insert:
      row.operation = call("insert", e.key, e.value);
      break;
    case map_op::insert_or_assign:
      row.operation = call("insert_or_assign", e.key, e.value);
      row.result = e.ok ? "inserted" : "assigned";
      break;
    case map_op::erase:
      row.operation = call("erase", e.key);
      break;
    case map_op::contains:
      row.operation = call("contains", e.key);
      break;
    case map_op::find:
      row.operation = call("find", e.key);
      row.result = e.ok ? std::to_string(e.value) : "none";
      break;
    case map_op::replace:
      row.operation = call("replace", e.key, e.value);
      row.result = e.ok ? "for " + std::to_string(e.before) : "none";
      break;
    case map_op::take:
      row.operation = call("take", e.key);
      row.result = e.ok ? std::to_string(e.value) : "none";
      break;
  }
  return row;
}

report_row describe(const bag_event& e, const char* put, const char* take) {
  report_row row{e.start, e.end, e.thread, "", "", ""};
  if (e.op == bag_op::put) {
    row.operation = call(put, e.value);
  } else {
    row.operation = std::string(take) + "()";
    row.result = e.ok ? std::to_string(e.value) : "empty";
  }
  return row;
}

report_row describe(const scan_event& e) {
  report_row row{e.start, e.end, e.thread, call("scan", e.low, e.high), "", ""};
  row.result = std::to_string(e.shown.size()) + " keys";
  return row;
}

}  // namespace spolia::test
