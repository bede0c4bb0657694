// Package workerservice implements both ends of what TensorFlow 2's eager contexts use of tensorflow.WorkerService: it serves GetStatus and
// RecvTensor, by which clients find a task's devices and fetch the tensors that the task's ops send, and a Puller fetches tensors that other
// tasks send, among them the Python process of the client. It also serves what such clients use of tensorflow.CoordinationService. The methods
// by which TensorFlow's tasks run graphs for each other are UNIMPLEMENTED: Troupe's tasks use links.
package workerservice
