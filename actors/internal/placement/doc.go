// Package placement agrees among the tasks of a cluster where virtual actors live, so that no two tasks act under one identity at the same
// time. It is a state machine without locks, goroutines and clocks: package actors/cast feeds it with messages and the time, and does what it
// answers.
//
// One task leads. It is elected by a quorum of the voters (the first nine tasks of the spec), and leads as long as a quorum has recently
// answered it. It makes views: numbered lists of the tasks that virtual actors may live on, its members. An identity lives on the member that
// Owners returns for it, which all tasks compute alike. The leader lends each member a lease, which the member renews with each answer.
//
//	           a quorum of votes                        members come, go, or leave
//	candidate -------------------> leader: view active ----------------------------> view pending
//	    ^                            |         ^                                         |
//	    |    no quorum has answered  |         +-----------------------------------------+
//	    +----------------------------+          each task keeps to the view, or its lease has surely ended
//
// A task that gets a view first ends what is not its own under it, then answers that it keeps to it. What stays with its task goes on
// meanwhile. When all tasks keep to the view, or can hold nothing any more, the leader makes it active, and the members begin what is
// their own.
//
// # Why there is only one
//
// A task acts only while it has a lease, and only under the view that it keeps to. A lease is counted from a time that the task itself has
// put into a message, and the leader counts it from when that message came, which is later. Clocks need not agree: it is enough that they run
// at the same speed, within a twentieth. A leader leads for as long after it has sent a message to a quorum, while each voter refuses other
// candidates for that long after the message has come. So there is one leader at a time. A new one takes each task for a holder of a lease of
// the former leader's for the longest time that such a lease may have, unless the task says otherwise or is the former leader, whose own lease ends
// with its lead. A voter that has just started has forgotten its votes, and refuses all candidates for as long as they may count, unless the
// candidate has heard from every task that it does not lead. It has also forgotten which leader it has heard: as long as a lease of that one's may last, candidates
// that it votes for take the former leader for a holder of a lease, too.
//
// A lead and a lease that have ended are not resumed by a message that comes late, and a task keeps to no view before it has a lease. Each task
// stands for terms of its own, so two leaders never number their views alike.
package placement
