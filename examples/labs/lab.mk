# The rules of a lab. Its Makefile says HANDIN, the files that a student hands in, and NEEDS, what of mqkv's programs and
# libraries it is built with, if any; and includes this one.
#
#   make check                  the checks that students have, on what is in this folder
#   make grade [SUBMISSION=D]   all checks, on the files of D (default: this folder); writes RESULTS (results.json)
#   make solution               the reference, in build/labs/LAB/solution
#   make verify                 for lecturers: the start fails, the reference has all points, and each of
#                               wrong/ loses those that it says, and no others
#   make handout                an archive without what students must not have
#
# FROM is the folder of the files that are built; the programs go to TO:
#   schedules   HANDIN, check.c and grade.c under the scheduler of tests/explore
#   race        HANDIN and race.c, with the thread sanitizer
#   plain       HANDIN and plain.c as usual: speed, and what needs the machine
LAB  := $(notdir $(CURDIR))
ROOT ?= ../../..
OUT  ?= $(ROOT)/build
FROM ?= .
TO   ?= $(OUT)/labs/$(LAB)/yours
CC   ?= cc
SUBMISSION ?= .
RESULTS ?= results.json
export OUT

EXPLORED  := $(OUT)/explore/obj/tests/explore
RUNTIME    = $(filter-out $(EXPLORED)/explore_% $(EXPLORED)/explored_%,$(wildcard $(EXPLORED)/*.o))
SUPPORT   := ../support
CHECKS    := $(wildcard check.c grade.c)
SOURCES   := $(filter %.c,$(HANDIN))
WARNINGS   = -DSERVERK='"$(abspath $(OUT)/serverk)"' -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -g -I$(FROM) -I. -I$(ROOT) -I$(ROOT)/include
SCHEDULED  = $(CC) $(WARNINGS) -O1 -fno-omit-frame-pointer -fsanitize=thread -c
RENAMED   := $(OUT)/explore/renamed

PROGRAMS := $(if $(CHECKS),$(TO)/schedules) $(if $(wildcard race.c),$(TO)/race) $(if $(wildcard plain.c),$(TO)/plain)
programs: $(PROGRAMS)

check: $(OUT)/labs/without_network
	@../grade --public .

grade: $(OUT)/labs/without_network
	@../grade --submission $(SUBMISSION) --results $(RESULTS) .

verify: $(OUT)/labs/without_network
	@../grade --verify .

solution:
	@../grade --solution .

handout:
	@../grade --handout .

$(OUT)/labs/without_network: $(SUPPORT)/without_network.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -O2 -o $@ $<

$(TO)/schedules: $(SOURCES:%.c=$(TO)/%.o) $(CHECKS:%.c=$(TO)/scheduled_%.o) $(TO)/no_directories.o
	$(CC) -no-pie -pthread -Wl,--wrap=opendir -o $@ $^ $(RUNTIME) -lxxhash -lm

# Each schedule finds the static variables of what is handed in as they were: the sections say which they are.
$(SOURCES:%.c=$(TO)/%.o): $(TO)/%.o: $(FROM)/%.c $(wildcard *.h) $(wildcard $(FROM)/*.h)
	@mkdir -p $(@D)
	$(SCHEDULED) -o $@ $<
	@objcopy --redefine-syms=$(RENAMED) --rename-section .data=room_data --rename-section .bss=room_bss $@

# A check and its headers are compiled from copies: beside themselves they would find the headers of this folder, not those
# that were handed in.
GIVEN := $(addprefix $(TO)/checks/,$(filter-out $(HANDIN),$(wildcard *.h)))
$(TO)/checks/%: %
	@mkdir -p $(@D)
	@cp $< $@

$(CHECKS:%.c=$(TO)/scheduled_%.o): $(TO)/scheduled_%.o: $(TO)/checks/%.c $(GIVEN) $(wildcard $(FROM)/*.h)
	$(SCHEDULED) -o $@ $<
	@objcopy --redefine-syms=$(RENAMED) $@

$(TO)/no_directories.o: $(SUPPORT)/no_directories.c
	@mkdir -p $(@D)
	$(CC) $(WARNINGS) -fno-pie -c -o $@ $<

$(TO)/race: $(TO)/checks/race.c $(GIVEN) $(SOURCES:%=$(FROM)/%) $(wildcard $(FROM)/*.h)
	$(CC) $(WARNINGS) -O1 -fsanitize=thread -pthread -o $@ $(filter %.c,$^) $(RACE_LIBS)

$(TO)/plain: $(TO)/checks/plain.c $(GIVEN) $(SOURCES:%=$(FROM)/%) $(wildcard $(FROM)/*.h)
	$(CC) $(WARNINGS) -O2 -pthread -o $@ $(filter %.c,$^) $(PLAIN_LIBS)

clean:
	rm -rf $(OUT)/labs/$(LAB) results.json

.PHONY: programs check grade verify solution handout clean
.PRECIOUS: $(TO)/checks/%
