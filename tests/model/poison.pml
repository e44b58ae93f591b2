/* poison.pml — a micro-batch that kills whoever computes it (lib/membership/protocol.md §8), for Spin 6: lib/membership/member_poison.c and
   group_suspects.c.

   N workers share the B micro-batches of one step; a worker computes up to two at once. Micro-batch `poison` (one of them, or none) kills its worker. CHANCE workers more may
   die at any moment; dead ones come back as new processes, or do not. When one dies the others begin a generation: unfinished micro-batches and those that
   died with their owner are dealt out anew, in any way, and the Begin carries the list of deaths. A micro-batch in flight is computed on.

     an unnamed death  makes all unfinished micro-batches of its owner suspects, that are none yet; they count one death, however many such deaths come
     a suspect         is computed after all others, and only when the others have been told that it is in flight; one with a second death alone
     a named death     counts for the micro-batches named
     three             on one micro-batch, and more than all other deaths of this step, end the job for all, naming it

   Held at every moment (assertions):
     blame    the job ends for the micro-batch that kills, never for an innocent one: when there is none up to two may die by chance; beside one that kills
              none may, for two that were named together and a third death by chance look like three (check.sh shows it)
     bound    a poison micro-batch kills three, not the ring one by one
   and under weak fairness (ltl end): the job ends, or the step is applied.
   Not modelled: who has heard of what (a name is heard by all, or the 200 ms are over, which is a fault of its own), lists that overflow, deaths
   noticed one step late, a ring in which all die at once: what they knew is gone with them. Environment: POISON (B: none), CHANCE, MUT. */
#ifndef N
#define N 4
#endif
#ifndef B
#define B 3
#endif
#define bit(i) (1 << (i))
#define has(set, i) (((set) >> (i)) & 1)
c_code {
\#include <stdlib.h>
static int setting(const char *name) { const char *v = getenv(name); return v ? atoi(v) : 0; }
}
hidden byte mut, poison;
#define NOT_TOLD (mut == 1)      /* suspects are computed without a word */
#define OWNED_COUNT (mut == 2)   /* every unnamed death counts for all unfinished micro-batches of its owner, and may end the job */
#define FORGOTTEN (mut == 3)     /* a Begin does not carry the list */
#define TOGETHER (mut == 4)      /* micro-batches with two deaths are computed two at once too */

bool up[N];
byte own[N], hand[N], fin[N];    /* micro-batches: to be begun, in flight, finished */
bool named[N];                   /* the others have been told what is in flight */
byte times[B], suspects, total;  /* the list: named deaths of each micro-batch; unnamed ones; all */
bool over, applied;
byte killed, chance;
hidden byte a, c;

#define level(b) (times[b] + has(suspects, b))
#define plain(set) ((set) & ~(suspects | bit(0) * (times[0] > 0) | bit(1) * (times[1] > 0) | bit(2) * (times[2] > 0)))
#define twice(set) ((set) & (bit(0) * (level(0) > 1) | bit(1) * (level(1) > 1) | bit(2) * (level(2) > 1)))
#define all (bit(B) - 1)

inline found(b) {
  if
  :: level(b) >= 3 && level(b) > total - level(b) && (times[b] > 0 || OWNED_COUNT) -> assert(b == poison); over = 1               /* blame */
  :: else
  fi
}
/* i is dead: the others hear it, and begin */
inline die(i) {
  total++;
  if
  :: named[i] -> a = 0; do :: a < B -> times[a] = times[a] + has(hand[i], a); a++ :: else -> break od
  :: !named[i] && OWNED_COUNT -> a = 0; do :: a < B -> times[a] = times[a] + has(own[i] | hand[i], a); a++ :: else -> break od
  :: !named[i] && !OWNED_COUNT -> suspects = suspects | plain(own[i] | hand[i])
  fi;
  up[i] = 0; own[i] = 0; hand[i] = 0; fin[i] = 0; named[i] = 0;
  if :: FORGOTTEN -> times[0] = 0; times[1] = 0; times[2] = 0; suspects = 0; total = 0 :: else fi;
  found(0); found(1); found(2);
  a = 0
}
#define living (up[0] || up[1] || up[2] || (N > 3 && up[N - 1]))
#define dealt (own[0] | own[1] | own[2] | own[N - 1] | hand[0] | hand[1] | hand[2] | hand[N - 1] | fin[0] | fin[1] | fin[2] | fin[N - 1])
#define finished (fin[0] | fin[1] | fin[2] | fin[N - 1])
inline deal(b) {
  if
  :: !has(dealt, b) && living && !over ->
     if
     :: up[0] -> own[0] = own[0] | bit(b)
     :: up[1] -> own[1] = own[1] | bit(b)
     :: up[2] -> own[2] = own[2] | bit(b)
     :: N > 3 && up[N - 1] -> own[N - 1] = own[N - 1] | bit(b)
     fi
  :: else
  fi
}
#define rest (OWNED_COUNT || NOT_TOLD -> own[i] : plain(own[i]))
inline take(i) {                                                            /* one micro-batch of c, or two; any */
  if
  :: has(c, 0) -> hand[i] = 1
  :: has(c, 1) -> hand[i] = 2
  :: has(c, 2) -> hand[i] = 4
  :: (c & 3) == 3 -> hand[i] = 3
  :: (c & 5) == 5 -> hand[i] = 5
  :: (c & 6) == 6 -> hand[i] = 6
  fi;
  own[i] = own[i] & ~hand[i]
}

proctype Worker(byte i) {
  do
  :: atomic { up[i] && !over && !hand[i] && rest -> c = rest; take(i); c = 0 }
  :: atomic { up[i] && !over && !hand[i] && own[i] && !rest ->
       c = own[i] & ~rest;
       if
       :: TOGETHER -> take(i)
       :: !TOGETHER && (c & ~twice(c)) -> c = c & ~twice(c); take(i)
       :: !TOGETHER && !(c & ~twice(c)) -> c = twice(c); c = c & ~(c - 1); take(i)
       fi;
       c = 0; named[i] = 1 }
  :: d_step { up[i] && !over && hand[i] && !has(hand[i], poison) -> fin[i] = fin[i] | hand[i]; hand[i] = 0; named[i] = 0 }
  :: atomic { up[i] && !over && has(hand[i], poison) ->
       d_step { killed++; assert(killed <= 3); die(i) }                      /* bound */
       deal(0); deal(1); deal(2) }
  :: d_step { !over && !applied && finished == all -> applied = 1; over = 1 }
  :: over -> break
  od
}

proctype Chance() {
  byte i;
  do
  :: atomic { chance > 0 && !over ->
       if :: i = 0 :: i = 1 :: i = 2 :: N > 3 -> i = N - 1 fi;
       if :: up[i] -> d_step { chance--; die(i) } deal(0); deal(1); deal(2) :: else fi;
       i = 0 }
  :: atomic { !over && living ->                                            /* a new process: it learns the list from the Begin, and has its share from the next one */
       if :: i = 0 :: i = 1 :: i = 2 :: N > 3 -> i = N - 1 fi;
       if :: !up[i] -> up[i] = 1 :: else fi;
       i = 0 }
  :: over -> break
  :: !living -> break
  od
}

init {
  atomic {
    c_code { mut = setting("MUT"); poison = setting("POISON"); now.chance = setting("CHANCE"); };
    up[0] = 1; up[1] = 1; up[2] = 1; up[N - 1] = 1;
    deal(0); deal(1); deal(2);
    run Worker(0); run Worker(1); run Worker(2);
    if :: N > 3 -> run Worker(N - 1) :: else fi;
    run Chance()
  }
}
ltl end { <> over }
