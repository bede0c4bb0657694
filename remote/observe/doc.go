// Package observe is the HTTP endpoint of a process's tasks, for monitoring and operation: metrics for Prometheus, probes, the state of the
// cluster as JSON, profiles, and pages for people.
//
//	/metrics      metrics of the process's tasks, in Prometheus' formats
//	/healthz      200 while the process answers
//	/readyz       200 while its tasks serve; with ?cluster, while all tasks of the cluster are up
//	/api/see      GET: a view.Query in the query's parameters, a view.Cluster as JSON
//	/debug/pprof  profiles of the process, if enabled
//	/             the pages, if there are any
//	/ui/api       the pages' requests; POST cancels steps, resets containers and drains tasks
//
// Everything except the pages' acts is read-only. Acts are refused under the same rules as the corresponding calls of the task's port. If
// the tasks require certificates or tokens, or have a policy, so does the endpoint, except for the probes.
package observe
