# Script: fills TEMPLATE with VERSION and the commit of SOURCE. Without git, or outside a repository: "unknown".
# "-dirty" marks a binary whose sources differ from the commit; measurements made with it cannot be reproduced.
set(COMMIT "unknown")
find_program(git_program git)
if(git_program)
  execute_process(COMMAND "${git_program}" -C "${SOURCE}" rev-parse --show-toplevel HEAD
    RESULT_VARIABLE status OUTPUT_VARIABLE answer ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH "${SOURCE}" real_source)
  # A copy of the sources inside some other repository must not claim that repository's commit.
  if(status EQUAL 0 AND answer MATCHES "^(.*)\n([0-9a-f]+)$" AND CMAKE_MATCH_1 STREQUAL real_source)
    set(COMMIT "${CMAKE_MATCH_2}")
    execute_process(
      COMMAND "${git_program}" -C "${SOURCE}" status --porcelain -- src include cmake CMakeLists.txt
      OUTPUT_VARIABLE changes ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(changes)
      string(APPEND COMMIT "-dirty")
    endif()
  endif()
endif()
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
