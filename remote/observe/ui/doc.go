// Package ui is the dashboard: what can be seen of a cluster, in a browser.
//
// The pages are files in assets, which the binary embeds: HTML, style and JavaScript modules that browsers read as they
// are. They use nothing from other servers. They ask the handler's own endpoints, each second while the page is shown:
//
//	/ui/api/about     what the server can do
//	/ui/api/see       a look at the cluster: a view.Cluster, of the query's parameters as a view.Query
//	/ui/api/why       the steps that have run for some time, and why they do not end: view.Reasons
//	/ui/api/graph     a session's placed graph
//	/ui/api/timeline  what the next steps do on all tasks, in Chrome's trace format
//	/ui/api/cancel    POST: ends a step, if there are Acts
//	/ui/api/reset     POST: empties containers, the same
//
// Who may call them is decided by what mounts the handler, and by Acts for each caller. Looks at the cluster that several pages ask for at about the
// same time are one look.
package ui
