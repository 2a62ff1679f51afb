# What doxygen reads of a header: names without the build variants' inline namespaces, and the comment
# at its top, which it would pass over, as the header's description.
s/::inline SPOLIA_FLAVOUR//
1{
  N
  /\n\/\/\//!s/^[^\n]*/\/\/\/ \\file/
  s/\n\/\/([^\/]|$)/\n\/\/\/\1/
}
2,/^#pragma once/{
  s/^\/\/([^\/]|$)/\/\/\/\1/
  s/^\/\/\/ ([A-Z][A-Za-z ]{2,14}):  +/\/\/\/ <br><b>\1:<\/b> /
}
