// Package lifecycle is the life of a step, as state machines without locks, goroutines and clocks: package actors feeds them with what
// happens, and does what they answer. They are driven by transcripts and by random schedules in tests.
//
// A step has a master, the task that its client called, and a part on each task that runs some of its operations, the master's own
// included:
//
//	             Begin              the last part has ended
//	Master:  -----------> running -------------------------> over
//	                        |  failure: Fail, Ended(err), Lost          ^
//	                        +---> failed (others are aborted) ----------+
//
//	             Start             Started             Ended, Lost, Abandon
//	its parts:  -------> starting ---------> running ----------------------> ended
//	                        ^                   |
//	                        +------ Unknown ----+     a task without the plan is sent it with another start
//
//	             Begin, Hold       Ended, as often
//	Part:       -------------> n ------------------> over
//	                                     Refuse instead: it never began
//
//	             Deposit            Begin           End
//	Table:      ---------> parked -------> live ----------> ended, and remembered
//	                         +---- Tick, Refuse ------------> refused, and remembered
//
// A Table has all steps of a task: those that it is the master of, and those that it runs a part of.
package lifecycle
