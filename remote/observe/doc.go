// Package observe is the HTTP endpoint of a process's tasks, for what looks after them: metrics for Prometheus, probes,
// what can be seen of the cluster as JSON, profiles, and pages for people.
//
//	/metrics      metrics of the process's tasks, in Prometheus' formats
//	/healthz      200 while the process answers
//	/readyz       200 while its tasks serve; with ?cluster, while all tasks of the cluster are up
//	/api/see      GET: a view.Query in the query's parameters, a view.Cluster as JSON
//	/debug/pprof  profiles of the process, if they are asked for
//	/             the pages, if there are any
//	/ui/api       what they ask for; POST has steps cancelled and containers reset
//
// All but the acts of the pages reads. Acts are refused as the calls of the task's port are that do the same. Where the tasks demand certificates or tokens, or have a policy,
// so does the endpoint, but for the probes.
package observe
