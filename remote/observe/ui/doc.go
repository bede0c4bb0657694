// Package ui is the dashboard: the state of a cluster, in a browser.
//
// The pages are files in assets, which the binary embeds: HTML, style and JavaScript modules that browsers read as they are. They use
// nothing from other servers. While a page is shown, it asks the handler's own endpoints every second:
//
//	/ui/api/about     what the server can do
//	/ui/api/see       the state of the cluster: a view.Cluster, for the view.Query in the parameters
//	/ui/api/why       the steps that have run for some time, and why they do not end: view.Reasons
//	/ui/api/graph     a session's placed graph
//	/ui/api/timeline  what the next steps do on all tasks, in Chrome's trace format
//	/ui/api/cancel    POST: ends a step, if there are Acts
//	/ui/api/reset     POST: empties containers, likewise
//	/ui/api/drain     POST: makes a task end, likewise
//
// What mounts the handler decides who may call the endpoints, and Acts decides it for each caller. If several pages ask for a look at the
// cluster at about the same time, they share one.
package ui
