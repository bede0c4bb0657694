// Package troupetest tests programs that use Troupe, with clusters in the test's own process. The tasks of a cluster are real servers on a
// network in memory: they use no ports, and a test can kill and freeze tasks, cut links, and delay or lose what is sent. A Probe is an
// actor that the test controls, and that says what other actors send.
//
// In a bubble of testing/synctest, time is simulated. A test then takes milliseconds, however long its clocks run, and its result does not
// depend on how busy the machine is:
//
//	func TestSum(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			c := troupetest.Start(t, map[string]int{"worker": 2}, troupe.WithActor("sum", newSum))
//			sum, err := c.Server("worker:0").Spawn(t.Context(), "sum", troupe.ActorAt("worker:1", "votes"), nil)
//			if err != nil {
//				t.Fatal(err)
//			}
//			p := c.Probe("worker:0", "voter")
//			p.Watch(sum)
//			p.Send(sum, wrapperspb.Int64(3))
//			p.Send(sum, wrapperspb.Int64(4))
//			p.Send(sum, &emptypb.Empty{}) // asks for the sum
//			if got := troupetest.Expect[*wrapperspb.Int64Value](p, time.Second); got.Value != 7 {
//				t.Errorf("the sum is %d, not 7", got.Value)
//			}
//			p.ExpectNothing(time.Hour)
//			c.Kill("worker:1")
//			if err := p.ExpectEnded(sum, time.Second); status.CodeOf(err) != status.Unavailable {
//				t.Errorf("the sum ended with %v, not UNAVAILABLE", err)
//			}
//		})
//	}
//
// Without a bubble, a test runs in real time, and may be parallel to others.
//
// # Names of tasks
//
// A task is named as for troupe.ActorAt: worker:1, /job:worker/task:1 or /job:worker/replica:0/task:1.
//
// # Goroutines
//
// A Cluster and its Probes belong to the test's goroutine and must not be used concurrently. A method that fails, or whose expectation is
// not met, ends the test with Fatalf. The servers, and the clients that Dial returns, may be used concurrently.
//
// # The end of a test
//
// At the end of the test, all faults are removed, and the clients and servers are stopped. The test fails in these cases:
//
//   - A server does not stop in order. The usual reason is an actor that does not return from Receive when its context ends.
//   - Tensors are left on a task. The usual reason is a tensor that the test has fetched and not released.
//   - A goroutine is left. In a bubble, synctest finds all goroutines that the test has started. In real time, troupetest looks for those that
//     began in a server or in a goroutine of a server, and gives them some seconds to end. A goroutine that began when the test's own
//     goroutine called a server is not among them. AllowGoroutine makes exceptions.
//
// Tensors and goroutines that are left are not reported if the test has failed already: they are a consequence.
//
// # Bubbles
//
// Time in a bubble passes only while all of its goroutines wait for each other or for time. A goroutine that waits for a real network or for
// another process stops it. This applies to WithHTTP, which listens on the machine's network. Kernels that divide their work among threads
// stop it, too. In this package they do so only if WithConfig sets IntraOpParallelismThreads to more than 1.
package troupetest
