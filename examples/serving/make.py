"""Makes ./model: a classifier of flowers by the sizes of sepal and petal in cm, as a TensorFlow 2 SavedModel.

usage: python3 make.py    (with TensorFlow 2.21)
"""
import os

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(1)
SPECIES = ["setosa", "versicolor", "virginica"]
MEANS = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]], np.float32)


class Flowers(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(tf.zeros([4, 3]), name="weights")
        self.bias = tf.Variable(tf.zeros([3]), name="bias")
        self.species = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer("species.txt", tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER,
                                          tf.string, tf.lookup.TextFileIndex.WHOLE_LINE), "unknown")

    def logits(self, sizes):
        return sizes @ self.weights + self.bias

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="sizes")])
    def classify(self, sizes):
        p = tf.nn.softmax(self.logits(sizes))
        return {"species": self.species.lookup(tf.argmax(p, 1)), "probability": tf.reduce_max(p, 1)}


with open("species.txt", "w") as f:
    f.write("\n".join(SPECIES) + "\n")
model = Flowers()
labels = np.random.randint(0, 3, 600)
sizes = MEANS[labels] + 0.25 * np.random.randn(600, 4).astype(np.float32)
for _ in range(500):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model.logits(sizes)))
    for v, g in zip((model.weights, model.bias), tape.gradient(loss, (model.weights, model.bias))):
        v.assign_sub(0.1 * g)
tf.saved_model.save(model, "model", signatures=model.classify)
os.remove("species.txt")
