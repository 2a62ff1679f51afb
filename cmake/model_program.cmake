# SPDX-License-Identifier: Apache-2.0
# spolia_add_model_program(name source...)
#
# A program, and a test of ctest, that runs structures over Spolia's headers under its model checker:
# its sources include <spolia/model/engine.hpp> and call spolia::model::explore(). It is compiled in
# the headers' model build variant, which links with nothing that was compiled in another one: so it
# links spolia::model, not spolia::spolia.

function(spolia_add_model_program name)
  if(NOT ARGN)
    message(FATAL_ERROR "spolia_add_model_program(${name}): no sources are given")
  endif()
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE spolia::model)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
