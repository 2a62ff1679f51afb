/* SPDX-License-Identifier: Apache-2.0 */
/* Macros without the prefix of a library that well-known headers make, all at once, each of something
 * that no header can be compiled with: what names one of them does not compile behind it. The
 * headers of the standard library that ours include come first; those are its own concern. */
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <compare>
#include <concepts>
#include <condition_variable>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <forward_list>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <optional>
#include <ostream>
#include <ranges>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>
#include <version>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

/* Qt (without QT_NO_KEYWORDS) */
#define slots @
#define signals @
#define emit @
#define foreach @
#define forever @

/* X11 */
#define Always @
#define Below @
#define Above @
#define None @
#define Bool @
#define Status @
#define Success @
#define True @
#define False @
#define CursorShape @
#define Unsorted @
#define FocusIn @
#define FocusOut @
#define KeyPress @
#define KeyRelease @
#define Expose @
#define Complex @
#define Convex @
#define Nonconvex @
#define YSorted @
#define GrayScale @
#define WhenMapped @
#define NotUseful @
#define InputOnly @
#define InputOutput @
#define CopyFromParent @
#define ParentRelative @
#define Opposite @
#define TopIf @
#define BottomIf @
#define LowerHighest @
#define RaiseLowest @
#define AllTemporary @
#define DestroyAll @
#define Nonlinear @
#define ControlMask @
#define ShiftMask @
#define LockMask @
#define Button1 @

/* <windows.h> */
#define min(a, b) @
#define max(a, b) @
#define small @
#define near @
#define far @
#define interface @
#define IN @
#define OUT @
#define OPTIONAL @
#define ERROR @
#define NO_ERROR @
#define DELETE @
#define CONST @
#define VOID @
#define TRUE @
#define FALSE @
#define STRICT @
#define DIFFERENCE @
#define ABSOLUTE @
#define RELATIVE @
#define TRANSPARENT @
#define OPAQUE @
#define IGNORE @
#define INFINITE @
#define THIS @
#define pascal @
#define cdecl @
#define GetMessage @
#define SendMessage @
#define CreateFile @
#define CopyFile @
#define DeleteFile @
#define MoveFile @
#define GetObject @
#define Yield() @
#define GetCurrentTime() @

/* <AssertMacros.h> and Objective-C of macOS */
#define check(a) @
#define verify(a) @
#define require(a, b) @
#define nil @
#define Nil @
#define YES @
#define NO @

/* Arduino, <termios.h> */
#define F(a) @
#define bit(a) @
#undef B0
#define B0 @
#define B1 @
#undef B50
#define B50 @
#define PI @
#define HIGH @
#define LOW @
#define INPUT @
#define OUTPUT @
#define DEFAULT @
#define EXTERNAL @
#define interrupts() @
#define noInterrupts() @
#define constrain(a, b, c) @
#define radians(a) @
#define degrees(a) @
#define sq(a) @
#undef ECHO
#define ECHO @

/* <complex.h>, <ctype.h> of newlib */
#undef I
#define I @
#define _B @
#define _C @
#define _L @
#define _N @
#define _P @
#define _S @
#define _U @
#define _X @

/* <sys/param.h>, <sys/sysmacros.h>, curses, and others */
#undef major
#define major(a) @
#undef minor
#define minor(a) @
#undef makedev
#define makedev(a, b) @
#undef MIN
#define MIN(a, b) @
#undef MAX
#define MAX(a, b) @
#define OK @
#define ERR @
#define DEBUG @
#define debug @
#define isset(a, b) @
#undef howmany
#define howmany(a, b) @
#undef roundup
#define roundup(a, b) @
#define ALWAYS @
#define NEVER @
