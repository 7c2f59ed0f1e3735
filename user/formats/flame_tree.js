// SPDX-License-Identifier: Apache-2.0
// The tree of a flame graph, of the data that html.c writes.
"use strict";
function flameTree(data) {
const diff = data.diff;

// Stacks for which a time line had no room are one more frame.
if (data.timeline) {
	data.names.push("[other stacks]");
	data.kinds += "4";
}

// The tree, in depth-first order: a node's descendants are those before skip[node].
const nr = data.nodes + 1 + (data.timeline ? 1 : 0);
const leaves = []; // the node of each run of data.stacks
const name = new Int32Array(nr), parent = new Int32Array(nr), skip = new Int32Array(nr);
const depth = new Uint16Array(nr);
const start = new Float64Array(nr), total = new Float64Array(nr), own = new Float64Array(nr);
// With diff: what of that is the first one's.
const startOld = new Float64Array(nr), totalOld = new Float64Array(nr), ownOld = new Float64Array(nr);

function decode() {
	const text = data.stacks, path = [0], value = new Uint8Array(128);
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	let pos = 0, next = 1;
	for (let i = 0; i < 64; i++)
		value[digits.charCodeAt(i)] = i;
	const number = () => {
		let result = 0, scale = 1, digit;
		do {
			digit = value[text.charCodeAt(pos++)];
			result += (digit & 31) * scale;
			scale *= 32;
		} while (digit & 32);
		return result;
	};
	const close = length => {
		while (path.length > length) {
			skip[path.pop()] = next;
		}
	};
	const open = id => {
		parent[next] = path[path.length - 1];
		depth[next] = path.length;
		name[next] = id;
		path.push(next++);
	};
	name[0] = -1;
	parent[0] = -1;
	while (pos < text.length) {
		close(number() + 1);
		for (let left = number(); left > 0; left--)
			open(number());
		const count = number(), old = diff ? number() * diff.before : 0;
		const both = diff ? count * diff.after + old : count, leaf = path[path.length - 1];
		leaves.push(leaf);
		own[leaf] += both;
		ownOld[leaf] += old;
	}
	if (data.timeline) {
		close(1);
		leaves.push(next);
		open(data.names.length - 1);
	}
	close(0);
}

// Own values to places and totals.
function measure() {
	let at = 0, atOld = 0;
	for (let node = 0; node < nr; node++) {
		start[node] = at;
		startOld[node] = atOld;
		at += own[node];
		atOld += ownOld[node];
	}
	for (let node = 0; node < nr; node++) {
		const end = skip[node];
		total[node] = (end < nr ? start[end] : at) - start[node];
		totalOld[node] = (end < nr ? startOld[end] : atOld) - startOld[node];
	}
}
decode();
measure();
return { nr, name, parent, skip, depth, start, total, own, startOld, totalOld, ownOld, leaves, measure };
}
