// Package serve makes a program a Troupe server: its binary has the flags, signals and exit codes of the command troupe serve, which is itself
// such a program.
//
//	serve.Main(troupe.WithActor("sum", newSum))
//
// The program is then one task of a cluster, which its command line or its environment declares, such as
// --sums=10.0.0.1:2222,10.0.0.2:2222 --task 1, or --join 10.0.0.1:2222. With --help, it explains its flags.
//
// A [Program] can also have code of its own, which runs once the server is up. [Program.Command] and [Execute] are for programs with flags or
// commands of their own. A program that has no use for the flags calls [troupe.NewServer] instead, and links no command line.
//
// # Exit codes
//
// 0 when the server has stopped after SIGTERM, SIGINT, a drain, or Server.Stop; 1 when the program's own code failed, or a second signal ended
// the process at once; 2 for an invalid command line; 3 when the cluster or the configuration is refused, such as an address that is taken; 4
// when no server of the cluster to join can be reached.
package serve
