// Package eager serves tensorflow.eager.EagerService, by which TensorFlow 2's clients run ops and functions on a task one by one: its eager
// contexts, the tensors that they hold there under handles, and functions. The contexts themselves are those of package actors; this package
// decodes requests, decides who may use which context, keeps the order of streams, and answers as TensorFlow's servers do.
//
// A context is a session to access policies, limits and the audit log. Since a context has the task fetch tensors from the addresses that its
// client names, the client also needs the right to declare clusters.
package eager
