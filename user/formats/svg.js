// SPDX-License-Identifier: Apache-2.0
// Search and zoom for the image that svg.c writes.
"use strict";
(() => {
const $ = id => document.getElementById(id);
const holder = $("frames");
if (!holder)
	return;
const left = Number(holder.dataset.left), width = Number(holder.dataset.width), CHAR = 6.8;
const frames = Array.from(holder.children, group => {
	const [title, rect, label] = group.children;
	const text = title.textContent, name = text.slice(0, text.lastIndexOf("\n"));
	return { group, rect, label, name, x: Number(rect.getAttribute("x")),
		w: Number(rect.getAttribute("width")), y: Number(rect.getAttribute("y")) };
});

function place(frame, x, w) {
	const room = Math.floor((w - 6) / CHAR);
	frame.rect.setAttribute("x", x);
	frame.rect.setAttribute("width", w);
	frame.label.setAttribute("x", x + 3);
	frame.label.textContent = room < 3 ? "" : frame.name.length <= room ? frame.name :
		frame.name.slice(0, room - 1) + "…";
}

function zoom(to) {
	const scale = width / to.w, slack = 0.005;
	for (const frame of frames) {
		const outer = frame.y < to.y && frame.x <= to.x + slack && frame.x + frame.w >= to.x + to.w - slack;
		const inner = frame.y >= to.y && frame.x >= to.x - slack && frame.x + frame.w <= to.x + to.w + slack;
		frame.group.style.display = outer || inner ? "" : "none";
		frame.group.classList.toggle("outer", outer);
		if (outer)
			place(frame, left, width);
		else if (inner)
			place(frame, left + (frame.x - to.x) * scale, frame.w * scale);
	}
	$("reset").setAttribute("visibility", to.w < width ? "visible" : "hidden");
}

// What is matched counts once, however many matches lie above each other.
function search(words) {
	const spans = [];
	let test, end = 0, sum = 0;
	try {
		const regex = new RegExp(words, /[A-Z]/.test(words) ? "" : "i");
		test = name => regex.test(name);
	} catch (error) {
		test = name => name.includes(words);
	}
	for (const frame of frames) {
		const found = words !== "" && test(frame.name);
		frame.group.classList.toggle("found", found);
		if (found)
			spans.push([frame.x, frame.x + frame.w]);
	}
	for (const [from, to] of spans.sort((a, b) => a[0] - b[0])) {
		sum += Math.max(0, to - Math.max(from, end));
		end = Math.max(end, to);
	}
	$("matched").textContent = words === "" ? "" : (100 * sum / width).toFixed(2) + "% matched: " + words;
}

const all = frames.find(frame => frame.group.classList.contains("a"));
for (const frame of frames)
	frame.group.addEventListener("click", () => zoom(frame));
$("reset").addEventListener("click", () => zoom(all));
$("search").addEventListener("click", () => {
	const words = prompt("Search: word or regular expression (empty to clear)");
	if (words !== null)
		search(words);
});
$("search").setAttribute("visibility", "visible");
document.addEventListener("keydown", event => {
	if (event.key === "Escape")
		zoom(all);
});
const given = /(?:^#|&)s=([^&]*)/.exec(location.hash);
if (given)
	search(decodeURIComponent(given[1]));
})();
